"""What memsieve speaks of: identities, vectors, policies, verdicts, and the ports to the world."""
