"""Kafka: the only folder that knows its client libraries."""
