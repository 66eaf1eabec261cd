"""Where other programs read the memories."""
