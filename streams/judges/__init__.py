"""The judges: they decide whether two texts are one fact."""
