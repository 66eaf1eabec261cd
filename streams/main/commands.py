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
    """The module of a slice that registers a command, and what the list of all says of it."""

    module: str
    summary: str


COMMANDS = {
    name: Entry(*entry)
    for name, entry in {
        "run": (
            "store.cli.run",
            "Decide on every row of the files, in order, and keep the memories in a store.",
        ),
        "deduplicator": (
            "services.cli",
            "Decide on the events of memory.events and publish the decisions, until stopped.",
        ),
        "writer": (
            "services.cli",
            "Apply the decisions to the index and publish what changed, until stopped.",
        ),
        "extractor": (
            "services.cli",
            "Take events from the turns of memory.turns and publish them, until stopped.",
        ),
        "consolidator": (
            "services.cli",
            "Consolidate the scopes that are due, every consolidate.minutes, until stopped.",
        ),
        "serve": (
            "services.cli",
            "Decide and apply in one process: for small installations, and an index that is no server.",
        ),
        "api": ("api.cli", "Serve the whole life of memories over HTTP, until stopped."),
        "mcp": (
            "mcp.cli",
            "Serve memories as tools to an agent, over the Model Context Protocol, until it ends.",
        ),
        "web": ("web.cli", "Serve the page to review and explore, until stopped."),
        "publish": (
            "publish.cli",
            "Publish every row of the files as an event, keyed by its scope.",
        ),
        "memories": ("inspect.cli", "List the memories that are kept, by scope and age."),
        "decisions": (
            "inspect.cli",
            "List the decisions, oldest first; with a limit, the newest of them.",
        ),
        "explain": (
            "inspect.cli",
            "Tell why something was decided: what it was compared with, and by which rule.",
        ),
        "import": (
            "memories_md.cli.memories_md",
            "Take the entries of a Memories.md over as events: into the store, or the cluster.",
        ),
        "export-md": (
            "memories_md.cli.memories_md",
            "Write the memories of a world's locations into a Memories.md.",
        ),
        "recall": (
            "recall.cli.recall",
            "Print the memories of a scope as a block for a prompt, within a budget of tokens.",
        ),
        "load": (
            "recall.cli.load",
            "Search a scope, and show the memories that are one fact as one entry; change nothing.",
        ),
        "expire": (
            "changes.cli.expire",
            "End the memories whose time is over, by the table [expiry] of the policy.",
        ),
        "consolidate": (
            "consolidate.cli",
            "Find memories that are one fact, scope by scope, and have each such group made one memory.",
        ),
        "history": (
            "changes.cli.history",
            "Tell a memory's life: every version, who made it and why, what it came from and became.",
        ),
        "undo": (
            "changes.cli.undo",
            "Take a decision back: its memories are again what they were.",
        ),
        "pin": (
            "changes.cli.requests",
            "Keep a memory as it is: it is not merged, replaced nor ended until it is unpinned.",
        ),
        "unpin": (
            "changes.cli.requests",
            "Let a pinned memory go: it may be merged, replaced and ended again.",
        ),
        "retire": ("changes.cli.requests", "End memories, and none takes their place."),
        "rate": (
            "changes.cli.requests",
            "Tell how often a memory was read, helped or misled since that was told last.",
        ),
        "forget": (
            "forget.cli",
            "Forget a memory and all that it stands for: nothing that is kept says it any more.",
        ),
        "scrub": (
            "forget.cli",
            "Take what is left of forgotten memories from a store's files: for what forget --later left.",
        ),
        "export": (
            "forget.cli",
            "Write all that is known of a tenant into files: memories, and the decisions with the events.",
        ),
        "shadow": (
            "replay.cli.shadow",
            "Decide beside the live one, under another policy, and tell each difference until Ctrl-C.",
        ),
        "extract": (
            "extract.cli",
            "Take what is worth remembering from turns, as events for `run` or `publish`.",
        ),
        "evaluate": (
            "lab.cli.evaluate",
            "Measure a policy on labelled rows, beside a mere threshold on the cosine.",
        ),
        "calibrate": (
            "lab.cli.calibrate",
            "Fit a policy's bands, and what a judge must hold, for the embedding model in use.",
        ),
        "analyze": (
            "lab.cli.analyze",
            "Count the pairs of a scope that are nearly the same, and tell how a store has grown.",
        ),
        "capacity": (
            "lab.cli.capacity",
            "Tell how many partitions, processes, cores and how much memory a stream of events takes.",
        ),
        "clean": (
            "memories_md.cli.clean",
            "Find what a file says twice, location by location, and make one of each.",
        ),
        "dedupe": (
            "dedupe_store.cli",
            "Find what a store of another program says twice, and write a copy that says it once.",
        ),
        "optimize": (
            "maintain.cli.optimize",
            "Build graphs for the scopes of an embedded store that hold many thousands of memories.",
        ),
        "doctor": (
            "maintain.cli.configuration",
            "Check model, policy, log and index, of a store or of a cluster, and say what to do.",
        ),
        "verify": (
            "verify.cli",
            "Audit a store or a cluster from its first record to its last memory; change nothing.",
        ),
        "topics": ("maintain.cli.topics", "The topics in the Kafka cluster."),
        "sessions": ("changes.cli.sessions", "The sessions of an agent: episodes, conversations."),
        "dead-letters": ("dead_letters.cli", "Records that could not be used."),
        "reviews": ("reviews.cli", "Questions to a person: what two memories are."),
        "replay": ("replay.cli.replay", "Build or decide anew, from the log."),
        "policies": ("store.cli.policies", "What memories are decided by."),
        "config": ("maintain.cli.configuration", "Settings."),
        "model": ("maintain.cli.models", "The embedding model."),
        "schema": ("maintain.cli.schema", "What travels on the topics."),
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
    import_module(f"streams.{module}").register(app)
    return dict(get_group(app).commands)
