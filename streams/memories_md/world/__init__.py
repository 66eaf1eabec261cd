"""The code of the slice that uses a library, a disk or a network."""
