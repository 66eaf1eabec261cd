"""The committed documents and examples: what other languages are told about the topics."""

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from schemas.codec import APPLIED, DEAD_LETTER, DECISION, EVENT, REVIEW, TURN, Codec, Unreadable
from schemas.decisions import KINDS
from schemas.topics import CHANGES, DEAD_LETTERS, DECISIONS, EVENTS, INPUTS, REVIEWS, TOPICS, TURNS
from streams.maintain.app import contracts
from streams.model import identity
from tests.schemas.compatibility import Schema, breaking_changes

SCHEMAS = Path(__file__).parents[2] / "schemas"
COMMITTED = SCHEMAS / "json"
BASELINE = COMMITTED / "v1"
"""The contract of schema_version 1, frozen: what producers were promised."""

CODECS: Mapping[str, Codec[Any]] = {
    EVENTS.name: EVENT,
    DECISIONS.name: DECISION,
    CHANGES.name: APPLIED,
    REVIEWS.name: REVIEW,
    DEAD_LETTERS.name: DEAD_LETTER,
    TURNS.name: TURN,
}
EXAMPLES = sorted(SCHEMAS.glob("examples/*/v*/*.json"))


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def topic_of(example: Path) -> str:
    return example.parents[1].name


def faults(topic: str, record: object) -> list[str]:
    """Say what the committed schema finds wrong with a record."""
    validator: Any = Draft202012Validator(read(COMMITTED / f"{topic}.schema.json"))
    return [error.message for error in validator.iter_errors(record)]


def kinds(document: Schema) -> dict[str, dict[str, Any]]:
    """Take a topic's document apart: one self-contained schema per kind of record."""
    definitions: Schema = document.get("$defs", {})

    def found(schema: Schema) -> Iterator[Schema]:
        if "$ref" in schema:
            yield from found(definitions[schema["$ref"].removeprefix("#/$defs/")])
        elif "oneOf" in schema:
            for part in schema["oneOf"]:
                yield from found(part)
        else:
            yield schema

    return {
        schema["properties"]["kind"]["const"]: {**schema, "$defs": definitions}
        for schema in found(document)
    }


def version(kind: Schema) -> int:
    return kind["properties"]["schema_version"]["const"]


def references(node: Any) -> Iterator[str]:
    """Find every `$ref` of a document, wherever it stands."""
    if isinstance(node, dict):
        fields = cast("dict[str, Any]", node)
        if "$ref" in fields:
            yield fields["$ref"]
        node = list(fields.values())
    if isinstance(node, list):
        for part in cast("list[Any]", node):
            yield from references(part)


class TestDocuments:
    def test_are_those_of_the_models(self, tmp_path: Path) -> None:
        written = {path.name: path.read_bytes() for path in contracts.write(tmp_path)}
        committed = {path.name: path.read_bytes() for path in COMMITTED.glob("*.json")}
        assert committed == written, "run `make schemas`; the diff is the review"

    @pytest.mark.parametrize("topic", list(CODECS))
    def test_are_json_schema(self, topic: str) -> None:
        Draft202012Validator.check_schema(read(COMMITTED / f"{topic}.schema.json"))

    @pytest.mark.parametrize("topic", list(CODECS))
    def test_every_reference_leads_somewhere(self, topic: str) -> None:
        document = read(COMMITTED / f"{topic}.schema.json")
        names = {f"#/$defs/{name}" for name in document.get("$defs", {})}
        assert set(references(document)) <= names

    @pytest.mark.parametrize("topic", list(CODECS))
    def test_every_record_must_name_its_kind_and_version(self, topic: str) -> None:
        for schema in kinds(read(COMMITTED / f"{topic}.schema.json")).values():
            assert {"kind", "schema_version"} <= set(schema["required"])


def test_what_counts_decisions_by_kind_knows_every_kind_of_the_topic() -> None:
    of_the_topic = kinds(contracts.json_schema(DECISIONS))
    assert sorted(KINDS) == sorted(of_the_topic.keys() - {"fence"}), (
        "name each kind in OnEvent or Marker, in schemas/decisions.py"
    )


class TestExamples:
    def test_every_kind_of_every_topic_has_one(self) -> None:
        shown = {(topic_of(path), read(path)["kind"]) for path in EXAMPLES}
        declared = {
            (topic.name, kind) for topic in TOPICS for kind in kinds(contracts.json_schema(topic))
        }
        assert shown == declared, "write one to schemas/examples/TOPIC/v1/KIND.json"

    @pytest.mark.covers("B118")
    @pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{topic_of(path)}-{path.stem}")
    def test_are_valid_and_come_back_as_they_were(self, path: Path) -> None:
        example, codec = read(path), CODECS[topic_of(path)]
        assert faults(topic_of(path), example) == []
        record = codec.decode(path.read_bytes())
        given = record.model_dump_json(exclude_unset=True)  # a producer may leave out defaults
        assert json.loads(given) == example
        encoded = codec.encode(record)
        assert faults(topic_of(path), json.loads(encoded)) == []
        assert codec.decode(encoded) == record

    @pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{topic_of(path)}-{path.stem}")
    def test_schema_and_codec_refuse_the_same_changes(self, path: Path) -> None:
        """Each required field left out, a field too many, another kind, another version."""
        example, topic = read(path), topic_of(path)
        required = kinds(read(COMMITTED / f"{topic}.schema.json"))[example["kind"]]["required"]
        changed = [{n: v for n, v in example.items() if n != name} for name in required]
        changed += [
            {**example, "colour": "red"},
            {**example, "kind": "imagine"},
            {**example, "schema_version": 2},
            {**example, "schema_version": "1"},
        ]
        for hostile in changed:
            assert faults(topic, hostile)
            with pytest.raises(Unreadable):
                CODECS[topic].decode(json.dumps(hostile).encode())

    def test_ids_are_derived_as_in_life(self) -> None:
        for path in EXAMPLES:
            example = read(path)
            if "event" in example:
                event = example["event"]
                derived = identity.decision_id(event["scope"], event["event_id"])
                assert example["decision_id"] == derived
            if memory := example.get("memory"):
                key = identity.content_key(memory["scope"], memory["text"])
                assert memory["content_key"] == key


class TestAsyncapi:
    def test_has_what_every_asyncapi_document_has(self) -> None:
        document = read(COMMITTED / contracts.ASYNCAPI)
        assert document["asyncapi"] == "3.0.0"
        assert document["info"]["title"] == "memsieve"
        assert document["info"]["version"]
        assert document["channels"]
        assert document["operations"]

    def test_names_every_topic_once(self) -> None:
        channels = read(COMMITTED / contracts.ASYNCAPI)["channels"]
        assert [channel["address"] for channel in channels.values()] == [t.name for t in TOPICS]

    def test_says_that_events_and_turns_come_in_and_the_rest_goes_out(self) -> None:
        operations = read(COMMITTED / contracts.ASYNCAPI)["operations"].values()
        actions = {one["channel"]["$ref"]: one["action"] for one in operations}
        assert actions == {
            f"#/channels/{topic.name}": "receive" if topic in INPUTS else "send" for topic in TOPICS
        }

    def test_every_reference_leads_somewhere(self) -> None:
        document = read(COMMITTED / contracts.ASYNCAPI)
        channels = {f"#/channels/{name}" for name in document["channels"]}
        files = {f"./{path.name}" for path in COMMITTED.glob("*.schema.json")}
        assert set(references(document)) == channels | files


class TestBaseline:
    def test_freezes_every_kind(self) -> None:
        frozen = {kind for path in BASELINE.iterdir() for kind in kinds(read(path))}
        current = {
            kind
            for topic in TOPICS
            for kind, schema in kinds(contracts.json_schema(topic)).items()
            if version(schema) == 1
        }
        assert current <= frozen, (
            "a new kind is promised too: copy its topic's document from schemas/json to "
            "schemas/json/v1; the diff only adds"
        )

    @pytest.mark.covers("B120")
    @pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
    def test_is_still_kept(self, topic: Any) -> None:
        """Raise the schema_version of a kind and write its lift before breaking its contract."""
        promised = kinds(read(BASELINE / f"{topic.name}.schema.json"))
        assert broken_promises(promised, kinds(contracts.json_schema(topic))) == []


def broken_promises(promised: Mapping[str, Schema], current: Mapping[str, Schema]) -> list[str]:
    """Say what breaks the contract of a kind whose version has not been raised."""
    return [
        f"{kind}: {change}"
        for kind, schema in promised.items()
        for change in (
            ["the kind is gone"]
            if kind not in current
            else breaking_changes(schema, current[kind])
            if version(current[kind]) <= version(schema)
            else []
        )
    ]


def document(**fields: object) -> dict[str, Any]:
    """Write a schema of one kind, whose fields a test changes."""
    properties: dict[str, object] = {
        "kind": {"const": "note", "type": "string"},
        "schema_version": {"const": 1, "type": "integer"},
        "body": {"type": "string", "minLength": 1, "maxLength": 100},
        "weight": {"anyOf": [{"type": "number", "maximum": 1.0}, {"type": "null"}]},
        "mood": {"$ref": "#/$defs/Mood"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 9},
        "pair": {
            "type": "array",
            "prefixItems": [{"type": "string"}, {"type": "integer"}],
            "minItems": 2,
            "maxItems": 2,
        },
        "extra": {
            "type": "object",
            "additionalProperties": {"type": "number"},
            "propertyNames": {"maxLength": 20},
        },
        "open": {"type": "object", "properties": {"x": {"type": "integer"}}},
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {**properties, **fields},
        "required": ["kind", "schema_version", "body"],
        "$defs": {"Mood": {"enum": ["calm", "cross"], "type": "string"}},
    }


OLD = document()


def edited(*path: str, value: object) -> dict[str, Any]:
    """Copy the document with the value at a path replaced, or taken away where it is None."""
    changed = copy.deepcopy(OLD)
    target = changed
    for step in path[:-1]:
        target = target[step]
    if value is None:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return changed


NUMBER, INTEGER, NULL = {"type": "number"}, {"type": "integer"}, {"type": "null"}

BREAKING: list[tuple[str, dict[str, Any], list[str]]] = [
    ("removed", edited("properties", "tags", value=None), ["tags: the field is gone"]),
    (
        "required",
        edited("required", value=["kind", "schema_version", "body", "mood"]),
        ["mood: is now required"],
    ),
    (
        "new and required",
        {
            **document(title={"type": "string"}),
            "required": ["kind", "schema_version", "body", "title"],
        },
        ["title: is now required"],
    ),
    ("type", document(body=INTEGER), ["body: string became integer"]),
    ("narrowed", document(weight=NUMBER), ["weight: null became number"]),
    (
        "number to integer",
        document(weight={"anyOf": [INTEGER, NULL]}),
        ["weight: number is no longer accepted"],
    ),
    (
        "alternative",
        document(weight={"anyOf": [NUMBER, {"type": "string"}]}),
        ["weight: null is no longer accepted"],
    ),
    (
        "bound inside an alternative",
        document(weight={"anyOf": [{"type": "number", "maximum": 0.5}, NULL]}),
        ["weight: maximum went from 1.0 to 0.5"],
    ),
    ("enum", edited("$defs", "Mood", "enum", value=["calm"]), ["mood: 'cross' no longer allowed"]),
    (
        "first enum",
        document(body={"type": "string", "enum": ["a"], "minLength": 1, "maxLength": 100}),
        ["body: only 'a' allowed from now on"],
    ),
    (
        "kind",
        document(kind={"const": "memo", "type": "string"}),
        ["kind: changed from 'note' to 'memo'"],
    ),
    (
        "version",
        document(schema_version={"const": 2, "type": "integer"}),
        ["schema_version: changed from 1 to 2"],
    ),
    (
        "upper bound",
        edited("properties", "body", "maxLength", value=50),
        ["body: maxLength went from 100 to 50"],
    ),
    (
        "lower bound",
        edited("properties", "body", "minLength", value=2),
        ["body: minLength went from 1 to 2"],
    ),
    (
        "first bound",
        edited("properties", "tags", "minItems", value=1),
        ["tags: minItems went from none to 1"],
    ),
    (
        "format",
        edited("properties", "body", "format", value="uri"),
        ["body: format went from none to uri"],
    ),
    (
        "elements",
        edited("properties", "tags", "items", value=INTEGER),
        ["tags[]{}: string became integer"],
    ),
    (
        "element by place",
        edited("properties", "pair", "prefixItems", value=[{"type": "string"}, NULL]),
        ["pair[1]: integer became null"],
    ),
    (
        "more elements by place",
        edited("properties", "tags", "prefixItems", value=[INTEGER]),
        ["tags[0]: string became integer"],
    ),
    (
        "further elements",
        edited("properties", "pair", "items", value=False),
        ["pair[]: further elements are no longer allowed"],
    ),
    (
        "values of an object",
        edited("properties", "extra", "additionalProperties", value=INTEGER),
        ["extra{}: number became integer"],
    ),
    (
        "names in an object",
        edited("properties", "extra", "propertyNames", "maxLength", value=10),
        ["extra{name}: maxLength went from 20 to 10"],
    ),
    (
        "closed",
        edited("properties", "open", "additionalProperties", value=False),
        ["open: other fields are no longer allowed"],
    ),
    (
        "half closed",
        edited("properties", "open", "additionalProperties", value=INTEGER),
        ["open{}: anything became integer"],
    ),
    (
        "inside an object",
        edited("properties", "open", "properties", "x", value={"type": "string"}),
        ["open.x: integer became string"],
    ),
    (
        "renamed",
        {
            **document(text=OLD["properties"]["body"]),
            "properties": {
                ("text" if name == "body" else name): field
                for name, field in OLD["properties"].items()
            },
            "required": ["kind", "schema_version", "text"],
        },
        ["body: the field is gone", "text: is now required"],
    ),
]

HARMLESS: dict[str, dict[str, Any]] = {
    "nothing": document(),
    "an optional field": document(title={"type": "string", "default": ""}),
    "no longer required": edited("required", value=["kind", "schema_version"]),
    "wider type": document(body={}),
    "another alternative": document(weight={"anyOf": [NUMBER, NULL, {"type": "string"}]}),
    "unfolded reference": document(mood={"type": "string", "enum": ["calm", "cross"]}),
    "another value": edited("$defs", "Mood", "enum", value=["calm", "cross", "glad"]),
    "any value": edited("$defs", "Mood", "enum", value=None),
    "looser bounds": document(body={"type": "string", "maxLength": 101}),
    "open": edited("additionalProperties", value=True),
    "integer to number": edited("properties", "open", "properties", "x", value=NUMBER),
    "words": document(body={**OLD["properties"]["body"], "description": "What was noted."}),
}


class TestBreakingChanges:
    @pytest.mark.covers("B120")
    @pytest.mark.parametrize(
        ("new", "expected"), [case[1:] for case in BREAKING], ids=[case[0] for case in BREAKING]
    )
    def test_are_found_and_named(self, new: dict[str, Any], expected: list[str]) -> None:
        assert breaking_changes(OLD, new) == expected

    @pytest.mark.parametrize("new", HARMLESS.values(), ids=list(HARMLESS))
    def test_are_not_seen_in_what_accepts_more(self, new: dict[str, Any]) -> None:
        assert breaking_changes(OLD, new) == []

    def test_are_found_in_any_kind_of_a_topic(self) -> None:
        other = document(kind={"const": "memo", "type": "string"})
        both = {"oneOf": [OLD, other], "$defs": OLD["$defs"]}
        changed = {**other, "required": ["kind", "schema_version", "body", "mood"]}
        assert breaking_changes(both, {"oneOf": [other, OLD], "$defs": OLD["$defs"]}) == []
        assert breaking_changes(both, {"oneOf": [OLD, changed], "$defs": OLD["$defs"]}) == [
            "mood: is now required"
        ]
        assert breaking_changes(both, OLD) == ["kind: changed from 'memo' to 'note'"]
        assert breaking_changes(
            {**both, "oneOf": [OLD, other, {**OLD, "properties": {"kind": {"const": "x"}}}]}, both
        ) == ["the record: kind x is no longer accepted"]

    @pytest.mark.parametrize(
        ("body", "keyword"),
        [({"not": {"const": "x"}}, "not"), ({"type": ["string", "null"]}, "several types")],
    )
    def test_what_cannot_be_judged_is_refused(self, body: dict[str, Any], keyword: str) -> None:
        with pytest.raises(ValueError, match=f"cannot judge {keyword}"):
            breaking_changes(OLD, document(body=body))

    @pytest.mark.covers("B120")
    def test_break_a_promise_unless_the_version_is_raised(self) -> None:
        """The pair of the finder and of the rule that obeys it."""
        promised = {"note": OLD}
        broken = document(body=INTEGER)
        raised = document(body=INTEGER, schema_version={"const": 2, "type": "integer"})
        lowered = document(schema_version={"const": 0, "type": "integer"})
        assert broken_promises(promised, {"note": document(), "memo": broken}) == []
        assert broken_promises(promised, {"note": broken}) == ["note: body: string became integer"]
        assert broken_promises(promised, {"note": raised}) == []
        assert broken_promises(promised, {"note": lowered}) == [
            "note: schema_version: changed from 1 to 0"
        ]
        assert broken_promises(promised, {}) == ["note: the kind is gone"]
