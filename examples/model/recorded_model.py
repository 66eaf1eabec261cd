# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""A language model's answers, played back: an OpenAI-compatible endpoint for the examples.

Usage: python examples/model/recorded_model.py COMMAND ...

Runs a command with MEMSIEVE_LLM__BASE_URL set to an endpoint that lives as long as the command.
Its answers were written by hand, in place of a model: the same as ever, and without a network.

An answer of game/answers.jsonl belongs to the turn in which the world says what begins with its
`world`. Like a model it looks at what is known: a title that is there is not remembered again, and
`supersedes` names titles, for which it gives the ids that it was shown.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

ANSWERS = Path(__file__).parents[1] / "game" / "answers.jsonl"
REQUESTS_PER_MINUTE = "6000"
"""Played-back answers cost nothing, so the command need not wait for its budget."""
NOTHING: dict[str, Any] = {
    "should_remember": False,
    "category": "",
    "memory_title": "",
    "memory_text": "",
    "said_by": "",
    "persistence": "permanent",
    "status": "active",
    "supersedes": [],
    "invalidates": [],
}


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    settings = {
        "MEMSIEVE_LLM__BASE_URL": url,
        "MEMSIEVE_LLM__MODEL": "recorded",
        "MEMSIEVE_LLM__REQUESTS_PER_MINUTE": REQUESTS_PER_MINUTE,
        "MEMSIEVE_LLM__REQUESTS_PER_MINUTE_TENANT": REQUESTS_PER_MINUTE,
    }
    environment = {**os.environ, **settings}  # noqa: TID251 - what a process is started with
    done = subprocess.run(sys.argv[1:], env=environment, check=False)  # noqa: S603 - our own call
    server.shutdown()
    sys.exit(done.returncode)


def answer_to(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the memory of a turn, beside those that are known."""
    heard = [part["text"] for part in shown["now"]["said"] if part["by"] == "world"]
    found = [one for one in _lines(ANSWERS) if any(text.startswith(one["world"]) for text in heard)]
    if not found:
        return {**NOTHING, "reasoning": "The turn teaches nothing that lasts."}
    known = {one["title"]: one["id"] for one in shown["known"]}
    answer = found[0]
    if answer["title"] in known:
        return {**NOTHING, "reasoning": f"Duplicate: {answer['title']} is known."}
    return {
        **NOTHING,
        "reasoning": "New, or more than what is known.",
        "should_remember": True,
        "category": answer["category"],
        "memory_title": answer["title"],
        "memory_text": answer["text"],
        "said_by": "world",
        "supersedes": [known[title] for title in answer["supersedes"] if title in known],
    }


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


class Endpoint(BaseHTTPRequestHandler):
    """Answers chat completions."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        lines = asked["messages"][-1]["content"].splitlines()
        shown = next(json.loads(line) for line in lines if line.startswith("{"))
        message = {"role": "assistant", "content": json.dumps(answer_to(shown))}
        body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
        """Say nothing: the command's own output is what counts."""


if __name__ == "__main__":
    main()
