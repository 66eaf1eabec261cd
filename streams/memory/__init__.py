"""A store that a program holds open: to decide, search and change."""
