"""All operations on memories over HTTP."""
