"""Extracts events from the turns of an agent."""
