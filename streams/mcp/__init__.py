"""The MCP server: memories as tools that a model calls."""
