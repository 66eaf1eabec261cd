"""Deterministic vetoes: what must not be lost when two texts are merged."""
