"""Memories.md files on disk: read and replaced, and kept in step with the memories."""
