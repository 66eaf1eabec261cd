"""The search indexes of the memories."""
