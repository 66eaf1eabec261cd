"""Questions to a person, and their answers."""
