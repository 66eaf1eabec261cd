"""The HTTP API: memories for agents in any language."""
