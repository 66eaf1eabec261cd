"""What of it touches a library, a disk or a network."""
