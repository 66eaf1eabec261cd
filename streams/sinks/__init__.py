"""Copies of the memories for other programs."""
