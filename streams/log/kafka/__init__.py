"""The log in Kafka; the only place that knows Kafka's libraries."""
