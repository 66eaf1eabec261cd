"""Memories and decisions listed, and explained."""
