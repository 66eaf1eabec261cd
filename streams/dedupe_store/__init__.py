"""Deduplicates another program's store."""
