"""The guards: rules that tell two facts apart."""
