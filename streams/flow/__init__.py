"""The application flow: one file per step of the stream; effects through ports only."""
