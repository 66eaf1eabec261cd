"""The commands in their groups: the function, summary and example of each.

To list them imports none of them: all together take a second.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class CommandEntry(NamedTuple):
    """A command: its function, its summary, and the arguments of an example."""

    function: str
    summary: str
    example: str = ""

    @property
    def module(self) -> str:
        return self.function.partition(":")[0]


class CommandGroup(NamedTuple):
    """Commands below one name."""

    summary: str
    commands: "Mapping[str, CommandEntry | CommandGroup]"


Table = Mapping[str, CommandEntry | CommandGroup]

START: Table = {
    "run": CommandEntry(
        "store.cli.run:run",
        "Decide on each row of files, and keep the memories in a store.",
        "facts.jsonl --store store",
    ),
    "try": CommandEntry(
        "lab.cli.trying:try_",
        "Compare the presets on a file, and find the one that suits you.",
        "facts.jsonl --ask",
    ),
    "publish": CommandEntry(
        "publish.cli:publish",
        "Publish the rows of files as events.",
        "facts.jsonl --kafka localhost:9092",
    ),
    "dedupe": CommandEntry(
        "dedupe_store.cli:dedupe",
        "Find repeats in a Memories.md, or in another program's data.",
        "mem0.json --out clean.jsonl",
    ),
    "extract": CommandEntry(
        "extract.cli:extract",
        "Extract events from turns, for run or publish.",
        "turns.jsonl --out events.jsonl",
    ),
    "memories-md": CommandGroup(
        "Import a Memories.md, or write memories into one.",
        {
            "import": CommandEntry(
                "memories_md.cli.memories_md:import_",
                "Import the entries of a Memories.md as events.",
                "Memories.md --store store",
            ),
            "export": CommandEntry(
                "memories_md.cli.memories_md:export_md",
                "Write the memories of locations into a Memories.md.",
                "Memories.md --store store",
            ),
        },
    ),
}

LOOK: Table = {
    "search": CommandEntry(
        "recall.cli:search",
        "Search a scope; memories of one fact come as one result.",
        "'What about coffee?' --scope acme/ana",
    ),
    "explain": CommandEntry(
        "inspect.cli:explain",
        "Explain a decision: what was compared, and by which rule.",
        "3f2a9c1e --store store",
    ),
    "decisions": CommandEntry(
        "inspect.cli:decisions",
        "List the decisions, oldest first; with a limit, the newest.",
        "--scope acme --kind merge",
    ),
    "reviews": CommandGroup(
        "List and answer questions about uncertain pairs.",
        {
            "list": CommandEntry(
                "reviews.cli:list_",
                "List the questions, the newest first.",
                "--scope acme",
            ),
            "show": CommandEntry(
                "reviews.cli:show",
                "Show a question: both texts side by side, and why it is open.",
                "3f2a9c1e",
            ),
            "answer": CommandEntry(
                "reviews.cli:answer",
                "Answer a question, or all of them in turn.",
                "3f2a9c1e distinct --note 'two cups'",
            ),
            "export": CommandEntry(
                "reviews.cli:export",
                "Write the answers as labelled pairs, for policy evaluate.",
                "--out pairs.jsonl",
            ),
        },
    ),
}

CHANGE: Table = {
    "memory": CommandGroup(
        "List memories, show their history, and change them.",
        {
            "list": CommandEntry(
                "inspect.cli:memories",
                "List the memories of a store or a cluster.",
                "--scope acme/ana --store store",
            ),
            "history": CommandEntry(
                "changes.cli.history:history",
                "Show a memory's versions, with authors, reasons and sources.",
                "3f2a9c1e --store store",
            ),
            "pin": CommandEntry(
                "changes.cli.requests:pin",
                "Pin a memory: it is not merged, replaced or retired.",
                "3f2a9c1e --note 'a promise'",
            ),
            "unpin": CommandEntry(
                "changes.cli.requests:unpin",
                "Unpin a memory: it may be merged, replaced and retired again.",
                "3f2a9c1e",
            ),
            "update": CommandEntry(
                "changes.cli.requests:update",
                "Give a memory a new text.",
                "3f2a9c1e 'Ana lives in Porto.'",
            ),
            "retire": CommandEntry(
                "changes.cli.requests:retire",
                "Retire memories without replacing them.",
                "3f2a9c1e 77c1d052 --reason invalid",
            ),
            "distinct": CommandEntry(
                "changes.cli.requests:distinct",
                "Keep two memories that are in conflict: both are right.",
                "3f2a9c1e 77c1d052 --note 'two offices'",
            ),
            "rate": CommandEntry(
                "changes.cli.requests:rate",
                "Record how often a memory was read, helped or misled.",
                "3f2a9c1e --helpful 1",
            ),
            "expire": CommandEntry(
                "changes.cli.expire:expire",
                "Retire memories that have expired under the policy.",
                "--policy mine.toml --dry-run",
            ),
            "sessions": CommandGroup(
                "Sessions of an agent: episodes or conversations.",
                {
                    "list": CommandEntry(
                        "changes.cli.sessions:list_",
                        "List the sessions with what each added, the newest last.",
                        "--scope acme",
                    ),
                    "end": CommandEntry(
                        "changes.cli.sessions:end",
                        "End a session: retire the ephemeral memories that it alone saw.",
                        "episode-7",
                    ),
                },
            ),
        },
    ),
    "undo": CommandEntry(
        "changes.cli.undo:undo",
        "Undo a decision, and restore its memories.",
        "3f2a9c1e --dry-run",
    ),
    "forget": CommandEntry(
        "forget.cli:forget",
        "Forget a memory, and erase every text that states it.",
        "--scope acme/ana --dry-run",
    ),
    "consolidate": CommandEntry(
        "consolidate.cli:consolidate",
        "Find memories of one fact, scope by scope, and merge them.",
        "--now --dry-run",
    ),
}

SERVICES: Table = {
    "service": CommandGroup(
        "Run the services, and set up what they need.",
        {
            "deduplicator": CommandEntry(
                "services.cli:deduplicator",
                "Decide on events and publish the decisions, until stopped.",
                "--kafka localhost:9092",
            ),
            "writer": CommandEntry(
                "services.cli:writer",
                "Apply decisions to the index and publish changes, until stopped.",
                "--kafka localhost:9092",
            ),
            "serve": CommandEntry(
                "services.cli:serve",
                "Decide and apply in one process, for small installations.",
                "--kafka localhost:9092",
            ),
            "extractor": CommandEntry(
                "services.cli:extractor",
                "Extract events from turns and publish them, until stopped.",
                "--kafka localhost:9092",
            ),
            "consolidator": CommandEntry(
                "services.cli:consolidator",
                "Consolidate the scopes that are due, until stopped.",
                "--kafka localhost:9092",
            ),
            "api": CommandEntry(
                "api.cli:api",
                "Serve memories over HTTP, until stopped.",
                "--store store --tokens tokens.toml",
            ),
            "mcp": CommandEntry(
                "mcp.cli:mcp",
                "Serve memories as tools of an agent over MCP, until stopped.",
                "--store store --scope acme/ana",
            ),
            "web": CommandEntry(
                "web.cli:web",
                "Serve the web pages to review and explore, until stopped.",
                "--store store --tokens tokens.toml",
            ),
            "topics": CommandGroup(
                "Create and check the topics of the Kafka cluster.",
                {
                    "create": CommandEntry(
                        "maintain.cli.topics:create",
                        "Create missing topics, and check those that exist.",
                        "--partitions 12",
                    ),
                    "check": CommandEntry(
                        "maintain.cli.topics:check",
                        "Check that the topics exist, and that they lose nothing.",
                        "--kafka localhost:9092",
                    ),
                    "acls": CommandEntry(
                        "maintain.cli.acls:acls",
                        "List each process's permissions, also for kafka-acls, Strimzi.",
                        "writer",
                    ),
                },
            ),
            "schema": CommandGroup(
                "Write the schemas of all records on the topics.",
                {
                    "export": CommandEntry(
                        "maintain.cli.schema:export",
                        "Write JSON Schemas of all records, and an AsyncAPI document.",
                        "schemas",
                    ),
                },
            ),
            "settings": CommandGroup(
                "Show and check the settings.",
                {
                    "show": CommandEntry(
                        "maintain.cli.configuration:show",
                        "Show every setting in force; secrets are masked.",
                        "--config memsieve.toml",
                    ),
                    "check": CommandEntry(
                        "maintain.cli.configuration:check",
                        "Check the settings and the policy that they name.",
                        "--config memsieve.toml",
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
            "list": CommandEntry(
                "store.cli.policies:list_", "List the policies that come with memsieve."
            ),
            "show": CommandEntry(
                "store.cli.policies:show",
                "Show a policy as it is written, or as it applies to a scope.",
                "default --scope acme/ana",
            ),
            "check": CommandEntry(
                "store.cli.policies:check",
                "Check policies, and whether they fit the current settings.",
                "mine.toml",
            ),
            "compare": CommandEntry(
                "store.cli.policies:compare",
                "Show in which keys two policies differ.",
                "default careful",
            ),
            "evaluate": CommandEntry(
                "lab.cli.evaluate:evaluate",
                "Measure a policy on labelled rows, compared with a cosine threshold.",
                "pairs.jsonl --policy careful",
            ),
            "calibrate": CommandEntry(
                "lab.cli.calibrate:calibrate",
                "Fit the thresholds of a policy to labelled rows.",
                "pairs.jsonl --name mine --out mine.toml",
            ),
            "shadow": CommandEntry(
                "replay.cli.shadow:shadow",
                "Decide alongside a live policy, and report each difference.",
                "--policy mine.toml --store store",
            ),
        },
    ),
}

MAINTAIN: Table = {
    "check": CommandEntry(
        "verify.cli:check",
        "Check model, policy, log and index, and suggest remedies.",
        "--full --store store",
    ),
    "store": CommandGroup(
        "Analyze, optimize, scrub, export and rebuild what is stored.",
        {
            "analyze": CommandEntry(
                "lab.cli.analyze:analyze",
                "Count near-duplicates, and show how a store has grown.",
                "--store store",
            ),
            "optimize": CommandEntry(
                "maintain.cli.optimize:optimize",
                "Build search graphs for the large scopes of a store.",
                "--store store",
            ),
            "scrub": CommandEntry(
                "forget.cli:scrub",
                "Erase what forget --later left in the files of a store.",
                "--store store",
            ),
            "export": CommandEntry(
                "forget.cli:export",
                "Write all data of a tenant to files: memories and decisions.",
                "--tenant acme --out acme-data",
            ),
            "replay": CommandGroup(
                "Rebuild the index, or decide again, from the log.",
                {
                    "rematerialise": CommandEntry(
                        "replay.cli.replay:rematerialise",
                        "Rebuild the index from the decisions, and swap it in.",
                        "--store store",
                    ),
                    "redecide": CommandEntry(
                        "replay.cli.replay:redecide",
                        "Decide again under another policy or model; show what differs.",
                        "--policy mine.toml --into anew",
                    ),
                    "diff": CommandEntry(
                        "replay.cli.replay:diff",
                        "Show how a replay's decisions differ from the log's.",
                        "anew --store store",
                    ),
                },
            ),
        },
    ),
    "dead-letters": CommandGroup(
        "List, show, requeue and drop rejected records.",
        {
            "list": CommandEntry(
                "dead_letters.cli:list_",
                "List rejected records: where they were, and what is wrong.",
                "--store store",
            ),
            "show": CommandEntry(
                "dead_letters.cli:show", "Show everything about a dead letter.", "3f2a9c1e --value"
            ),
            "requeue": CommandEntry(
                "dead_letters.cli:requeue",
                "Publish their events and turns again, corrected or unchanged.",
                "3f2a9c1e --with event.json",
            ),
            "drop": CommandEntry(
                "dead_letters.cli:drop",
                "Close dead letters without publishing them.",
                "--all-open --dry-run",
            ),
        },
    ),
    "model": CommandGroup(
        "Install and check the embedding model.",
        {
            "install": CommandEntry(
                "maintain.cli.models:install",
                "Fetch and check the embedding model; print its directory.",
            ),
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

MOVED: Mapping[str, str] = {
    "analyze": "memsieve store analyze",
    "api": "memsieve service api",
    "calibrate": "memsieve policy calibrate",
    "capacity": "python benchmarks/capacity.py",
    "clean": "memsieve dedupe",
    "config": "memsieve service settings",
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
"""What each earlier command is called now; told to whoever types the earlier name."""
