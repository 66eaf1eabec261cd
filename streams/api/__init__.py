"""The whole life of memories over HTTP."""
