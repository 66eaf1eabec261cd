"""Decides on a log's events again, and rebuilds copies from it."""
