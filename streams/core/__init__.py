"""The domain logic as pure functions: same input, same output; no clock, no I/O."""
