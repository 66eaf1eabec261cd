"""Register the schemas of memsieve's topics with a Schema Registry, for catalogues and reviewers.

    memsieve service schema export schemas
    python3 register_schemas.py http://registry:8081 schemas

Records stay plain JSON, without a registry's prefix. Repeating it registers only what is new.
"""
# ruff: noqa: INP001, S310, T201 - a program, not a package

import argparse
import base64
import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

TYPE = "application/vnd.schemaregistry.v1+json"
SUFFIX = ".schema.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("registry", help="its URL; REGISTRY_AUTH may hold user:password")
    parser.add_argument("schemas", type=Path, help="the folder that the export wrote")
    parser.add_argument("--prefix", default="", help="that of the topics, kafka.prefix")
    given = parser.parse_args()
    files = sorted(given.schemas.glob(f"*{SUFFIX}"))
    if not files:
        print(f"{given.schemas} holds no file *{SUFFIX}: export the schemas first", file=sys.stderr)
        return 2
    for file in files:
        subject = f"{given.prefix}{file.name.removesuffix(SUFFIX)}-value"
        try:
            # A registry takes a new field of a closed object for a breaking change. memsieve's
            # consumers refuse an unknown schema_version instead.
            ask(given.registry, "PUT", f"config/{subject}", {"compatibility": "NONE"})
            schema = {"schemaType": "JSON", "schema": file.read_text("utf-8")}
            made = ask(given.registry, "POST", f"subjects/{subject}/versions", schema)
        except HTTPError as error:
            print(f"{subject}: {error.code} {error.read().decode()}", file=sys.stderr)
            return 1
        except URLError as error:
            print(f"{given.registry} does not answer: {error.reason}", file=sys.stderr)
            return 1
        print(f"{subject}: id {made['id']}")
    return 0


def ask(registry: str, method: str, path: str, body: dict[str, str]) -> dict[str, Any]:
    request = Request(f"{registry.rstrip('/')}/{path}", json.dumps(body).encode(), method=method)
    request.add_header("Content-Type", TYPE)
    if login := os.environ.get("REGISTRY_AUTH"):  # noqa: TID251 - this program is no part of memsieve
        request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    with urlopen(request, timeout=30) as answer:
        return json.load(answer)


if __name__ == "__main__":
    sys.exit(main())
