"""What an agent is reminded of, and searches without repeats."""
