"""Where memories are searched."""
