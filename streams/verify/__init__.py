"""A log and its copies, audited."""
