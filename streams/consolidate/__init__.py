"""Finds memories of a scope that are one fact, and merges them."""
