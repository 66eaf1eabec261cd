"""The commands in their groups; a command's module is imported when the command is called.

Importing all of them takes a second.
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


GROUPS = {
    "Start": {
        "run": Entry(
            "store.cli.run",
            "Decide on every row of the files, and keep the memories in a store.",
        ),
        "try": Entry(
            "lab.cli.trying",
            "Show what each preset would make of a file, and find the one that agrees with you.",
        ),
        "publish": Entry("publish.cli", "Publish the rows of files as events."),
        "model": Entry("maintain.cli.models", "Install and check the embedding model."),
        "policies": Entry("store.cli.policies", "List, show, check and compare policies."),
        "config": Entry("maintain.cli.configuration", "Show the settings."),
    },
    "Look": {
        "memories": Entry("inspect.cli", "List the memories of a store or a cluster."),
        "load": Entry(
            "recall.cli.load",
            "Search a scope; memories of one fact come as one result.",
        ),
        "recall": Entry(
            "recall.cli.recall",
            "Print the memories of a scope as a block for a prompt.",
        ),
        "explain": Entry(
            "inspect.cli",
            "Explain a decision: what was compared, and by which rule.",
        ),
        "decisions": Entry(
            "inspect.cli", "List the decisions, oldest first; with a limit, the newest."
        ),
        "history": Entry(
            "changes.cli.history",
            "Show every version of a memory: who made it, why, and from what.",
        ),
        "reviews": Entry("reviews.cli", "List and answer questions about pairs in doubt."),
        "sessions": Entry(
            "changes.cli.sessions", "Sessions of an agent: episodes or conversations."
        ),
    },
    "Change": {
        "undo": Entry(
            "changes.cli.undo", "Undo a decision: its memories are again what they were."
        ),
        "pin": Entry(
            "changes.cli.requests",
            "Pin a memory: it is not merged, replaced or retired.",
        ),
        "unpin": Entry(
            "changes.cli.requests",
            "Unpin a memory: it may be merged, replaced and retired again.",
        ),
        "retire": Entry("changes.cli.requests", "Retire memories without replacing them."),
        "rate": Entry(
            "changes.cli.requests",
            "Record how often a memory was read, helped or misled.",
        ),
        "forget": Entry(
            "forget.cli",
            "Forget a memory, and erase everything that says what it said.",
        ),
        "consolidate": Entry(
            "consolidate.cli",
            "Find memories of one fact, scope by scope, and merge them.",
        ),
        "expire": Entry(
            "changes.cli.expire",
            "Retire memories whose time is over by the policy.",
        ),
    },
    "Files": {
        "import": Entry(
            "memories_md.cli.memories_md",
            "Import the entries of a Memories.md as events.",
        ),
        "export-md": Entry(
            "memories_md.cli.memories_md",
            "Write the memories of locations into a Memories.md.",
        ),
        "export": Entry(
            "forget.cli",
            "Write all data of a tenant to files: memories and decisions.",
        ),
        "clean": Entry(
            "memories_md.cli.clean",
            "Find what a file says twice, and merge it.",
        ),
        "dedupe": Entry(
            "dedupe_store.cli",
            "Find duplicates in the store of another program; write a clean copy.",
        ),
        "extract": Entry(
            "extract.cli",
            "Extract events from turns, for run or publish.",
        ),
        "dead-letters": Entry("dead_letters.cli", "List, show, requeue and drop rejected records."),
    },
    "Services": {
        "serve": Entry(
            "services.cli",
            "Decide and apply in one process, for small installations.",
        ),
        "deduplicator": Entry(
            "services.cli",
            "Decide on events and publish the decisions, until stopped.",
        ),
        "writer": Entry(
            "services.cli",
            "Apply decisions to the index and publish changes, until stopped.",
        ),
        "extractor": Entry(
            "services.cli",
            "Extract events from turns and publish them, until stopped.",
        ),
        "consolidator": Entry(
            "services.cli",
            "Consolidate the scopes that are due, until stopped.",
        ),
        "api": Entry("api.cli", "Serve memories over HTTP, until stopped."),
        "mcp": Entry(
            "mcp.cli",
            "Serve memories as tools of an agent over MCP, until stopped.",
        ),
        "web": Entry("web.cli", "Serve the page to review and explore, until stopped."),
    },
    "Measure": {
        "evaluate": Entry(
            "lab.cli.evaluate",
            "Measure a policy on labelled rows, next to a cosine threshold.",
        ),
        "calibrate": Entry(
            "lab.cli.calibrate",
            "Fit the thresholds of a policy to labelled rows.",
        ),
        "analyze": Entry(
            "lab.cli.analyze",
            "Count the near-duplicates of a scope, and how a store has grown.",
        ),
        "capacity": Entry(
            "lab.cli.capacity",
            "Estimate partitions, processes, cores and memory for a load.",
        ),
        "shadow": Entry(
            "replay.cli.shadow",
            "Decide alongside a live policy, and report each difference.",
        ),
        "replay": Entry("replay.cli.replay", "Rebuild the index, or decide again, from the log."),
    },
    "Maintain": {
        "doctor": Entry(
            "maintain.cli.configuration",
            "Check model, policy, log and index, and say what to do.",
        ),
        "verify": Entry(
            "verify.cli",
            "Audit a store or a cluster, record by record; change nothing.",
        ),
        "topics": Entry("maintain.cli.topics", "Create and check the topics of the Kafka cluster."),
        "optimize": Entry(
            "maintain.cli.optimize",
            "Build search graphs for the large scopes of a store.",
        ),
        "scrub": Entry(
            "forget.cli",
            "Erase what forget --later left in the files of a store.",
        ),
        "schema": Entry(
            "maintain.cli.schema", "Write the schemas of all that travels on the topics."
        ),
    },
}
"""The commands, by what they are for, in the order of the list."""

COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}


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
        """Write the groups of the table."""
        del ctx
        width = formatter.width - 6 - max(map(len, COMMANDS))  # as the inherited way does
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name, TyperCommand(name, help=entry.summary).get_short_help_str(width))
                        for name, entry in group.items()
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
