"""It put together: opens what it needs, and runs it."""
