"""Opens what the slice needs, and runs it."""
