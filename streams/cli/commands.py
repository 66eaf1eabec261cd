"""Which commands there are, and the module of each, imported when the command is called.

All of them together take a second to import, which nobody waits for who calls one.
"""

from collections import UserDict
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


class Entry(NamedTuple):
    """The module that registers a command, and what the list of all commands says of it."""

    module: str
    summary: str


COMMANDS = {
    name: Entry(*entry)
    for name, entry in {
        "run": (
            "run",
            "Decide on every row of the files, in order, and keep the memories in a store.",
        ),
        "deduplicator": (
            "services",
            "Decide on the events of memory.events and publish the decisions, until stopped.",
        ),
        "writer": (
            "services",
            "Apply the decisions to the index and publish what changed, until stopped.",
        ),
        "extractor": (
            "services",
            "Take events from the turns of memory.turns and publish them, until stopped.",
        ),
        "consolidator": (
            "services",
            "Consolidate the scopes that are due, every consolidate.minutes, until stopped.",
        ),
        "serve": (
            "services",
            "Decide and apply in one process: for small installations, and an index that is no server.",
        ),
        "api": ("api", "Serve the whole life of memories over HTTP, until stopped."),
        "mcp": (
            "mcp",
            "Serve memories as tools to an agent, over the Model Context Protocol, until it ends.",
        ),
        "web": ("web", "Serve the page to review and explore, until stopped."),
        "publish": ("publish", "Publish every row of the files as an event, keyed by its scope."),
        "memories": ("stores", "List the memories that are kept, by scope and age."),
        "decisions": (
            "stores",
            "List the decisions, oldest first; with a limit, the newest of them.",
        ),
        "explain": (
            "stores",
            "Tell why something was decided: what it was compared with, and by which rule.",
        ),
        "import": (
            "memories_md",
            "Take the entries of a Memories.md over as events: into the store, or the cluster.",
        ),
        "export-md": (
            "memories_md",
            "Write the memories of a world's locations into a Memories.md.",
        ),
        "recall": (
            "recall",
            "Print the memories of a scope as a block for a prompt, within a budget of tokens.",
        ),
        "load": (
            "load",
            "Search a scope, and show the memories that are one fact as one entry; change nothing.",
        ),
        "expire": (
            "expire",
            "End the memories whose time is over, by the table [expiry] of the policy.",
        ),
        "consolidate": (
            "consolidate",
            "Find memories that are one fact, scope by scope, and have each such group made one memory.",
        ),
        "history": (
            "history",
            "Tell a memory's life: every version, who made it and why, what it came from and became.",
        ),
        "undo": ("undo", "Take a decision back: its memories are again what they were."),
        "pin": (
            "requests",
            "Keep a memory as it is: it is not merged, replaced nor ended until it is unpinned.",
        ),
        "unpin": (
            "requests",
            "Let a pinned memory go: it may be merged, replaced and ended again.",
        ),
        "retire": ("requests", "End memories, and none takes their place."),
        "rate": (
            "requests",
            "Tell how often a memory was read, helped or misled since that was told last.",
        ),
        "forget": (
            "forget",
            "Forget a memory and all that it stands for: nothing that is kept says it any more.",
        ),
        "scrub": (
            "forget",
            "Take what is left of forgotten memories from a store's files: for what forget --later left.",
        ),
        "export": (
            "forget",
            "Write all that is known of a tenant into files: memories, and the decisions with the events.",
        ),
        "shadow": (
            "shadow",
            "Decide beside the live one, under another policy, and tell each difference until Ctrl-C.",
        ),
        "extract": (
            "extract",
            "Take what is worth remembering from turns, as events for `run` or `publish`.",
        ),
        "evaluate": (
            "evaluate",
            "Measure a policy on labelled rows, beside a mere threshold on the cosine.",
        ),
        "calibrate": (
            "calibrate",
            "Fit a policy's bands, and what a judge must hold, for the embedding model in use.",
        ),
        "analyze": (
            "analyze",
            "Count the pairs of a scope that are nearly the same, and tell how a store has grown.",
        ),
        "capacity": (
            "capacity",
            "Tell how many partitions, processes, cores and how much memory a stream of events takes.",
        ),
        "clean": (
            "clean",
            "Find what a file says twice, location by location, and make one of each.",
        ),
        "dedupe": (
            "dedupe",
            "Find what a store of another program says twice, and write a copy that says it once.",
        ),
        "optimize": (
            "optimize",
            "Build graphs for the scopes of an embedded store that hold many thousands of memories.",
        ),
        "doctor": (
            "configuration",
            "Check model, policy, log and index, of a store or of a cluster, and say what to do.",
        ),
        "verify": (
            "verify",
            "Audit a store or a cluster from its first record to its last memory; change nothing.",
        ),
        "topics": ("topics", "The topics in the Kafka cluster."),
        "sessions": ("sessions", "The sessions of an agent: episodes, conversations."),
        "dead-letters": ("dead_letters", "Records that could not be used."),
        "reviews": ("reviews", "Questions to a person: what two memories are."),
        "replay": ("replay", "Build or decide anew, from the log."),
        "policies": ("policies", "What memories are decided by."),
        "config": ("configuration", "Settings."),
        "model": ("models", "The embedding model."),
        "schema": ("schema", "What travels on the topics."),
    }.items()
}
"""In the order of the list."""


class Commands(TyperGroup):
    """The commands of the table, none of which is imported to list them."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - what typer gives any group
        super().__init__(**given)
        self.commands = _Loaded(dict.fromkeys(COMMANDS))

    def list_commands(self, ctx: object) -> list[str]:
        """Return the names; the inherited way looks at the commands as well."""
        del ctx
        return list(self.commands)

    def format_commands(self, ctx: object, formatter: Any) -> None:  # noqa: ANN401 - typer's own
        """Write the list from the table."""
        del ctx
        width = formatter.width - 6 - max(map(len, COMMANDS))  # as the inherited way does
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, TyperCommand(name, help=entry.summary).get_short_help_str(width))
                    for name, entry in COMMANDS.items()
                ]
            )


class _Loaded(UserDict[str, Any]):
    """Commands by name, each imported the first time it is asked for."""

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - typer's own kinds of commands
        if self.data[name] is None:
            self.data |= registered(COMMANDS[name].module)
        return self.data[name]


def registered(module: str) -> dict[str, Any]:
    """Return the commands that a module registers, by name."""
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    import_module(f"streams.cli.{module}").register(app)
    return dict(get_group(app).commands)
