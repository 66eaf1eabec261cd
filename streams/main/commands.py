"""The commands in their groups: the function and an example of each.

To list them imports none of them: all together take a second.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple


class CommandEntry(NamedTuple):
    """A command: its function, and the arguments of an example."""

    function: str
    example: str = ""

    @property
    def module(self) -> str:
        return self.function.partition(":")[0]

    @property
    def help(self) -> str:
        """The function's docstring, read from the source: importing it takes too long."""
        module, _, name = self.function.partition(":")
        source = Path(__file__).parents[1].joinpath(*module.split(".")).with_suffix(".py")
        body = ast.parse(source.read_text(encoding="utf-8")).body
        called = next(one for one in body if isinstance(one, ast.FunctionDef) and one.name == name)
        return ast.get_docstring(called) or ""


class CommandGroup(NamedTuple):
    """Commands below one name."""

    help: str
    commands: "Mapping[str, CommandEntry | CommandGroup]"


Table = Mapping[str, CommandEntry | CommandGroup]

START: Table = {
    "run": CommandEntry("store.cli.run:run", "facts.jsonl --store store"),
    "try": CommandEntry("lab.cli.trying:try_", "facts.jsonl --ask"),
    "publish": CommandEntry("publish.cli:publish", "facts.jsonl --kafka localhost:9092"),
    "dedupe": CommandEntry("dedupe_store.cli:dedupe", "mem0.json --out clean.jsonl"),
    "extract": CommandEntry("extract.cli:extract", "turns.jsonl --out events.jsonl"),
    "memories-md": CommandGroup(
        "Import a Memories.md, or write memories into one.",
        {
            "import": CommandEntry(
                "memories_md.cli.memories_md:import_", "Memories.md --store store"
            ),
            "export": CommandEntry(
                "memories_md.cli.memories_md:export_md", "Memories.md --store store"
            ),
        },
    ),
}

LOOK: Table = {
    "search": CommandEntry("recall.cli:search", "'What about coffee?' --scope acme/ana"),
    "explain": CommandEntry("inspect.cli:explain", "3f2a9c1e --store store"),
    "decisions": CommandEntry("inspect.cli:decisions", "--scope acme --kind merge"),
    "reviews": CommandGroup(
        "List and answer questions about uncertain pairs.",
        {
            "list": CommandEntry("reviews.cli:list_", "--scope acme"),
            "show": CommandEntry("reviews.cli:show", "3f2a9c1e"),
            "answer": CommandEntry("reviews.cli:answer", "3f2a9c1e distinct --note 'two cups'"),
            "export": CommandEntry("reviews.cli:export", "--out pairs.jsonl"),
        },
    ),
}

CHANGE: Table = {
    "memory": CommandGroup(
        "List memories, show their history, and change them.",
        {
            "list": CommandEntry("inspect.cli:memories", "--scope acme/ana --store store"),
            "history": CommandEntry("changes.cli.history:history", "3f2a9c1e --store store"),
            "pin": CommandEntry("changes.cli.requests:pin", "3f2a9c1e --note 'a promise'"),
            "unpin": CommandEntry("changes.cli.requests:unpin", "3f2a9c1e"),
            "update": CommandEntry("changes.cli.requests:update", "3f2a9c1e 'Ana lives in Porto.'"),
            "retire": CommandEntry(
                "changes.cli.requests:retire", "3f2a9c1e 77c1d052 --reason invalid"
            ),
            "distinct": CommandEntry(
                "changes.cli.requests:distinct", "3f2a9c1e 77c1d052 --note 'two offices'"
            ),
            "rate": CommandEntry("changes.cli.requests:rate", "3f2a9c1e --helpful 1"),
            "expire": CommandEntry("changes.cli.expire:expire", "--policy mine.toml --dry-run"),
            "sessions": CommandGroup(
                "Sessions of an agent: episodes or conversations.",
                {
                    "list": CommandEntry("changes.cli.sessions:list_", "--scope acme"),
                    "end": CommandEntry("changes.cli.sessions:end", "episode-7"),
                },
            ),
        },
    ),
    "undo": CommandEntry("changes.cli.undo:undo", "3f2a9c1e --dry-run"),
    "forget": CommandEntry("forget.cli:forget", "--scope acme/ana --dry-run"),
    "consolidate": CommandEntry("consolidate.cli:consolidate", "--now --dry-run"),
}

SERVICES: Table = {
    "service": CommandGroup(
        "Run the services, and set up what they need.",
        {
            "deduplicator": CommandEntry("services.cli:deduplicator", "--kafka localhost:9092"),
            "writer": CommandEntry("services.cli:writer", "--kafka localhost:9092"),
            "serve": CommandEntry("services.cli:serve", "--kafka localhost:9092"),
            "extractor": CommandEntry("services.cli:extractor", "--kafka localhost:9092"),
            "consolidator": CommandEntry("services.cli:consolidator", "--kafka localhost:9092"),
            "api": CommandEntry("api.cli:api", "--store store --tokens tokens.toml"),
            "mcp": CommandEntry("mcp.cli:mcp", "--store store --scope acme/ana"),
            "web": CommandEntry("web.cli:web", "--store store --tokens tokens.toml"),
            "topics": CommandGroup(
                "Create and check the topics of the Kafka cluster.",
                {
                    "create": CommandEntry("maintain.cli.topics:create", "--partitions 12"),
                    "check": CommandEntry("maintain.cli.topics:check", "--kafka localhost:9092"),
                    "acls": CommandEntry("maintain.cli.acls:acls", "writer"),
                },
            ),
            "schema": CommandGroup(
                "Write the schemas of all records on the topics.",
                {
                    "export": CommandEntry("maintain.cli.schema:export", "schemas"),
                },
            ),
            "settings": CommandGroup(
                "Show and check the settings.",
                {
                    "show": CommandEntry(
                        "maintain.cli.configuration:show", "--config memsieve.toml"
                    ),
                    "check": CommandEntry(
                        "maintain.cli.configuration:check", "--config memsieve.toml"
                    ),
                },
            ),
        },
    ),
}

MEASURE: Table = {
    "policy": CommandGroup(
        "List, check, compare, measure and calibrate policies.",
        {
            "list": CommandEntry("store.cli.policies:list_"),
            "show": CommandEntry("store.cli.policies:show", "default --scope acme/ana"),
            "check": CommandEntry("store.cli.policies:check", "mine.toml"),
            "compare": CommandEntry("store.cli.policies:compare", "default careful"),
            "evaluate": CommandEntry("lab.cli.evaluate:evaluate", "pairs.jsonl --policy careful"),
            "calibrate": CommandEntry(
                "lab.cli.calibrate:calibrate", "pairs.jsonl --name mine --out mine.toml"
            ),
            "shadow": CommandEntry("replay.cli.shadow:shadow", "--policy mine.toml --store store"),
        },
    ),
}

MAINTAIN: Table = {
    "check": CommandEntry("verify.cli:check", "--full --store store"),
    "store": CommandGroup(
        "Analyze, optimize, scrub, export and rebuild what is stored.",
        {
            "analyze": CommandEntry("lab.cli.analyze:analyze", "--store store"),
            "optimize": CommandEntry("maintain.cli.optimize:optimize", "--store store"),
            "scrub": CommandEntry("forget.cli:scrub", "--store store"),
            "export": CommandEntry("forget.cli:export", "--tenant acme --out acme-data"),
            "replay": CommandGroup(
                "Rebuild the index, or decide again, from the log.",
                {
                    "rematerialise": CommandEntry(
                        "replay.cli.replay:rematerialise", "--store store"
                    ),
                    "redecide": CommandEntry(
                        "replay.cli.replay:redecide", "--policy mine.toml --into trial"
                    ),
                    "diff": CommandEntry("replay.cli.replay:diff", "trial --store store"),
                },
            ),
        },
    ),
    "dead-letters": CommandGroup(
        "List, show, requeue and drop rejected records.",
        {
            "list": CommandEntry("dead_letters.cli:list_", "--store store"),
            "show": CommandEntry("dead_letters.cli:show", "3f2a9c1e --value"),
            "requeue": CommandEntry("dead_letters.cli:requeue", "3f2a9c1e --with event.json"),
            "drop": CommandEntry("dead_letters.cli:drop", "--all-open --dry-run"),
        },
    ),
    "model": CommandGroup(
        "Install and check the embedding model.",
        {
            "install": CommandEntry("maintain.cli.models:install"),
        },
    ),
}

SECTIONS: Mapping[str, Table] = {
    "Start": START,
    "Look": LOOK,
    "Change": CHANGE,
    "Run services": SERVICES,
    "Measure": MEASURE,
    "Maintain": MAINTAIN,
}
"""The commands, by what they are for, in the order of the list."""


def _every(table: Table, before: str = "") -> Iterator[tuple[str, CommandEntry]]:
    for name, one in table.items():
        if isinstance(one, CommandEntry):
            yield before + name, one
        else:
            yield from _every(one.commands, f"{before}{name} ")


COMMANDS: Mapping[str, CommandEntry] = {
    name: entry for section in SECTIONS.values() for name, entry in _every(section)
}
"""Every command by all its words: `memory pin`."""

OPTIONS_MEANT: Mapping[str, str] = {"--preset": "--policy careful, default or thorough"}
"""What to write for an option that is not there, for commands that have the one meant."""

MEANT: Mapping[str, str] = {
    "add": "memsieve run FILE",
    "delete": "memsieve forget",
    "list": "memsieve memory list",
    "remove": "memsieve forget",
    "show": "memsieve explain",
    "status": "memsieve check",
    "update": "memsieve memory update",
}
"""What other programs' commands on memories are called here."""

MOVED: Mapping[str, str] = {
    "analyze": "memsieve store analyze",
    "api": "memsieve service api",
    "calibrate": "memsieve policy calibrate",
    "capacity": "python benchmarks/capacity.py",
    "clean": "memsieve dedupe",
    "config": "memsieve service settings",
    "conflicts": "memsieve memory list --conflicts",
    "consolidator": "memsieve service consolidator",
    "deduplicator": "memsieve service deduplicator",
    "doctor": "memsieve check",
    "evaluate": "memsieve policy evaluate",
    "expire": "memsieve memory expire",
    "export": "memsieve store export",
    "export-md": "memsieve memories-md export",
    "extractor": "memsieve service extractor",
    "history": "memsieve memory history",
    "import": "memsieve memories-md import",
    "load": "memsieve search",
    "mcp": "memsieve service mcp",
    "memories": "memsieve memory list",
    "optimize": "memsieve store optimize",
    "pin": "memsieve memory pin",
    "policies": "memsieve policy",
    "rate": "memsieve memory rate",
    "recall": "memsieve search --block",
    "replay": "memsieve store replay",
    "retire": "memsieve memory retire",
    "schema": "memsieve service schema",
    "scrub": "memsieve store scrub",
    "serve": "memsieve service serve",
    "sessions": "memsieve memory sessions",
    "shadow": "memsieve policy shadow",
    "topics": "memsieve service topics",
    "unpin": "memsieve memory unpin",
    "verify": "memsieve check --full",
    "web": "memsieve service web",
    "writer": "memsieve service writer",
}
"""What stands for a command that there is not, such as an earlier name; told to whoever types it."""
