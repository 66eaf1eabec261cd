"""The domain: identities, vectors, policies, verdicts, and the ports to the outside."""
