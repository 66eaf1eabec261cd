"""The wire format: the frozen models of every record that enters, crosses or leaves memsieve."""
