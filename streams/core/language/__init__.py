"""English: the relations between words, and what a text says that must not be lost."""
