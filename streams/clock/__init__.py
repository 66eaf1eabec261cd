"""The time of day, and how long things take."""
