"""The steps of the slice: they use only ports."""
