"""Memories.md: a file of memories by place, read without loss and edited in place."""
