"""The guards: what tells two facts apart by rule."""
