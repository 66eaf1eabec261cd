"""The rules of the slice: they need only their arguments."""
