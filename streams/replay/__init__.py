"""Events decided once more, and copies built anew, from the log."""
