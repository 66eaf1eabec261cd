"""What a failure means for the record at hand, and for the process."""


class Poison(Exception):
    """This record can never succeed: dead-letter it and continue. `field` names what is wrong."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class Transient(Exception):
    """The same call may succeed later: retry with backoff and skip nothing."""


class NotYet(Transient):
    """Something else must catch up first: keep what was built and retry the same records."""


class Fatal(Exception):
    """Nothing can succeed here until a person acts: stop and commit nothing. One clear line."""


class NoModel(Fatal):
    """The embedding model is missing, damaged or unknown."""


class NoStore(Fatal):
    """The store is busy, damaged, full, unwritable, or was made for something else."""


class Unreachable(Transient):
    """A server does not answer; it may be restarting."""


class Unusable(Fatal):
    """A setting cannot be used on this machine."""


class NoServer(Fatal):
    """A server refuses the request or cannot do what is needed."""
