"""Traces: what becomes of a record, from topic to topic."""
