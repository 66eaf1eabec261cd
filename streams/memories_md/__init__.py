"""A Memories.md read, written, cleaned and kept in step."""
