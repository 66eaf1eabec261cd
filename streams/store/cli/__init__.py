"""The commands of the slice: they parse and print."""
