"""The distributed processes."""
