"""Its commands: they parse, and print."""
