"""Kafka: the only folder that uses its client libraries."""
