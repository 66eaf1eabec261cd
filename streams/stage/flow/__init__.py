"""Its steps: they reach the world through ports only."""
