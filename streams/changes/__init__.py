"""Memories undone, ended, pinned and rated, and their history."""
