"""What any consumer needs, independent of memories."""
