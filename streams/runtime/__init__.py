"""What any consumer needs; knows nothing of memories."""
