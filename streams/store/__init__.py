"""A log with its memories, opened: settings, policies, the embedded process, and the one way to read and ask."""
