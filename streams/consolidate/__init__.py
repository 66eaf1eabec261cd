"""Memories of a scope that are one fact, found and made one."""
