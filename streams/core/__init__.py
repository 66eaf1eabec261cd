"""What is true: judgement as pure functions. Same input, same output; no clock, no I/O."""
