"""Maintains settings, models, topics, schemas and graphs."""
