"""The indexes: where memories are searched."""
