"""Rules that hold in a scope and below it: which are meant, how they are joined, what is refused."""

import re
from typing import Any

import pytest

from schemas.base import ScopeName
from streams.model.policy import InvalidPolicy, Policy, Rules, ancestry, parse
from streams.store.core.toml import as_toml
from tests.builders import policy

TEXT = """
name = "test"
model = "fake"

[bands]
match = 0.95
review = 0.8
log = 0.7

[merge]
characters_max = 300

[calibration]
dataset = "none"
date = "2026-03-01"
command = "none"

[scopes."acme/user-1"]
enabled = false

[scopes."acme/user-2"]
bands.match = 0.99
judges = { chain = ["llm", "built-in"], one_memory_min = 0.9 }
"""


def rules(scope: str, **scopes: Any) -> Rules:
    named = {name.replace("_", "/"): over for name, over in scopes.items()}
    return policy(scopes=named).rules(ScopeName(scope))


@pytest.mark.covers("B61")
def test_a_path_is_compared_part_by_part() -> None:
    assert list(ancestry("acme/user-10/home")) == ["acme/user-10/home", "acme/user-10", "acme"]
    found = parse(TEXT)
    assert not found.rules(ScopeName("acme/user-1")).enabled
    assert not found.rules(ScopeName("acme/user-1/home")).enabled
    for other in ("acme", "acme/user-10", "acme/user", "other/acme/user-1"):
        assert found.rules(ScopeName(other)) is found


@pytest.mark.covers("B61")
def test_an_override_replaces_single_keys_and_leaves_the_rest() -> None:
    found = parse(TEXT)
    here = found.rules(ScopeName("acme/user-2"))
    assert here.bands == found.bands.model_copy(update={"match": 0.99})
    assert here.judges.chain == ("llm", "built-in")
    assert (here.judges.one_memory_min, here.judges.deep) == (0.9, found.judges.deep)
    assert here.merge == found.merge
    assert here.merge.characters_max == 300


@pytest.mark.covers("B61")
def test_of_several_paths_the_longest_counts_alone() -> None:
    over = {"a": {"enabled": False}, "a_b": {"merge": {"characters_max": 9}}}
    assert not rules("a/c", **over).enabled
    here = rules("a/b/c", **over)
    assert (here.enabled, here.merge.characters_max) == (True, 9)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"bands": {"match": 0.5}}, "bands"),
    ({"bands": {"near": 0.5}}, "bands.near"),
    ({"bandz": {}}, "bandz"),
    ({"enabled": "perhaps"}, "enabled"),
    ({"brake": {"decisions_min": 0}}, "brake.decisions_min"),
    ({"brake": 7}, "brake"),
    ({"nominate": {"similarity_min": 0.9}}, "nominate.similarity_min"),
    ({"model": "other"}, "model"),
    ({"scopes": {}}, "scopes"),
]


@pytest.mark.covers("B61")
@pytest.mark.parametrize(("over", "key"), REFUSED)
def test_an_override_that_cannot_be_used_is_refused_by_scope_and_key(
    over: dict[str, Any], key: str
) -> None:
    content = policy().model_dump(mode="json")
    with pytest.raises(InvalidPolicy) as refused:
        parse(as_toml({**content, "scopes": {"acme/ana": over}}))
    told = str(refused.value)
    assert re.search(rf"acme/ana\W+.*{re.escape(key)}", told)
    assert "\n" not in told


@pytest.mark.parametrize("scope", ["", "acme/*", "/acme", "acme/", "acme//ana", " acme"])
def test_a_scope_that_no_event_can_have_is_refused(scope: str) -> None:
    with pytest.raises(ValueError, match="scopes"):
        policy(scopes={scope: {"enabled": False}})


@pytest.mark.covers("B61")
def test_an_override_changes_the_policys_id() -> None:
    ids = {
        one.id
        for one in (
            policy(),
            policy(scopes={"acme": {"enabled": False}}),
            policy(scopes={"acme": {"enabled": True}}),
            policy(scopes={"acme/ana": {"enabled": False}}),
            policy(enabled=False),
        )
    }
    assert len(ids) == 5


def test_a_policy_that_is_written_and_read_again_has_the_same_overrides() -> None:
    found = parse(TEXT)
    again = Policy.model_validate_json(found.model_dump_json())
    assert (again, again.id) == (found, found.id)
    assert again.rules(ScopeName("acme/user-2")) == found.rules(ScopeName("acme/user-2"))
