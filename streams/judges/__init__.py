"""The judges: what tells whether two texts are one fact."""
