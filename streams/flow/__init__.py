"""What happens: one file per step of the stream; effects through ports only."""
