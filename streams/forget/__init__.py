"""Memories forgotten for good, and a tenant's data exported."""
