"""The dedup stage itself: events become decisions, decisions become memories."""
