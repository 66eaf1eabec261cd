"""Turns two texts into the numbers that the trained judge uses."""
