"""The judges of nominated pairs, and the writer of merged texts."""
