"""What a language model answers that is asked for the memory of a turn."""

import json
from typing import Any

from tests.standin.llm import Reply, said


def taken(text: str, **fields: Any) -> Reply:
    answer: dict[str, Any] = {
        "reasoning": "It is new.",
        "should_remember": True,
        "category": "FAILURE",
        "memory_title": "Hatch",
        "memory_text": text,
        "said_by": "world",
        "persistence": "permanent",
        "status": "active",
        "supersedes": [],
        "invalidates": [],
    }
    return said(json.dumps(answer | fields))


DECLINED = said(json.dumps({"reasoning": "Known already.", "should_remember": False}))
