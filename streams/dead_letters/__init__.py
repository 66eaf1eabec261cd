"""Records that could not be used: read, requeued, dropped."""
