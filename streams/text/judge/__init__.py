"""Two texts as the numbers that the trained judge looks at."""
