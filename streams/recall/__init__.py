"""Memories for a prompt, and searches without repeats."""
