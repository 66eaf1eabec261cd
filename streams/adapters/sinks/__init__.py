"""The sinks: copies of the memories for other programs."""
