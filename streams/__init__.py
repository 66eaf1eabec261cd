"""memsieve: a streaming dedup stage for the memories of AI agents."""
