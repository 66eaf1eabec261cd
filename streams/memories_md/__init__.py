"""Reads, writes, cleans and synchronises a Memories.md."""
