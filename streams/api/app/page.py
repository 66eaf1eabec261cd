"""An overview of the API as one self-contained HTML page."""

import html
from collections.abc import Iterator, Mapping
from typing import Any

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}"
    "h2{margin:2rem 0 0;font-size:1rem}p{margin:.2rem 0}small{color:#666}"
)


def page(described: Mapping[str, Any]) -> str:
    """Return an HTML page of an OpenAPI document's routes: what each does, and its fields."""
    info = described["info"]
    routes = "".join(
        f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>"
        f"<p>{html.escape(operation.get('description', ''))}</p>"
        f"<p><small>{html.escape(', '.join(_fields(described, operation)))}</small></p>"
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>memsieve</title>'
        f"<style>{_STYLE}</style><h1>memsieve {html.escape(info['version'])}</h1>"
        f"<p>{html.escape(info['description'])} All fields and answers: "
        f'<a href="/openapi.json">openapi.json</a>.</p>{routes}</html>'
    )


def _fields(described: Mapping[str, Any], operation: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of a request, optional ones in brackets."""
    for one in operation.get("parameters", ()):
        yield _named(one["name"], required=one["required"])
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    for schema in _schemas(described, body.get("schema", {})):
        required = schema.get("required", ())
        for name in schema.get("properties", {}):
            yield _named(name, required=name in required)


def _schemas(
    described: Mapping[str, Any], schema: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    for one in (schema, *schema.get("anyOf", ())):
        if "$ref" in one:
            yield described["components"]["schemas"][one["$ref"].rpartition("/")[2]]


def _named(name: str, *, required: bool) -> str:
    return name if required else f"[{name}]"
