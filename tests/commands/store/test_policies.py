"""`memsieve policy`: what there is, what it says, whether it can be used, how two differ."""

import tomllib
from pathlib import Path

import pytest

from schemas.base import ScopeName
from schemas.decisions import Insert, Reason
from streams.embedding import HASHING
from streams.model.policy import ANY_MODEL, Policy, Rules, overlaid, parse
from streams.store.app import policies
from streams.store.core.toml import as_toml
from tests.commands.conftest import Memsieve, write_events
from tests.support.stage.stores import decisions

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
ZORK = policies.text("zork-semantic")
"""Its numbers are those of its document: they do not change when a policy is calibrated anew."""


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.covers("B111")
def test_the_policies_that_ship_are_listed_with_what_they_do(memsieve: Memsieve) -> None:
    listed = memsieve("policy", "list", "--json").json()
    assert [one["name"] for one in listed] == policies.names()
    assert {one["model"] for one in listed} == {MODEL, HASHING, ANY_MODEL}
    assert {one["id"].rpartition("-")[0] for one in listed} == set(policies.names())
    lines = memsieve("policy", "list").out.splitlines()
    assert len(lines) == 2 * len(listed)
    for one in listed:
        assert f"{one['name']:<16}{one['model']}" in lines
        assert f"    {one['summary']}" in lines
        assert policies.text(one["name"]).startswith(f"# {one['summary']}\n")


@pytest.mark.parametrize("name", policies.names())
def test_a_policy_is_shown_as_it_is_written(name: str, memsieve: Memsieve) -> None:
    assert memsieve("policy", "show", name).out == policies.text(name)
    shown = memsieve("policy", "show", name, "--json").json()
    assert shown.pop("id") == policies.load(name).id
    assert policies.load(name) == type(policies.load(name)).model_validate(shown)


@pytest.mark.covers("B61")
def test_what_is_in_force_in_a_scope_is_shown_with_its_overrides(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    overrides = (
        '[scopes."acme/ana".bands]\nmatch = 0.99\n\n[scopes.acme.nominate]\nneighbours_max = 3\n'
    )
    mine = write(tmp_path / "mine.toml", f"{ZORK}\n{overrides}")
    for scope, match, neighbours_max in [
        ("acme/ana/work", 0.99, 8),
        ("acme/ben", 0.95, 3),
        ("other", 0.95, 8),
    ]:
        written = memsieve("policy", "show", mine, "--scope", scope).out
        assert written.startswith(f"# {policies.load(str(mine)).id}, in scope {scope}\n")
        rules = tomllib.loads(written)
        assert (rules["bands"]["match"], rules["nominate"]["neighbours_max"]) == (
            match,
            neighbours_max,
        )
        shown = memsieve("policy", "show", mine, "--scope", scope, "--json").json()
        assert shown.pop("scope") == scope
        assert shown.pop("id") == policies.load(str(mine)).id
        assert Rules.model_validate(rules) == Rules.model_validate(shown)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "zork-semantc"), "policy zork-semantc: there is no such policy or file; did you"),
        (
            ("show", "none"),
            "policies here: adr-004, agent-memory, careful, default, default-hashing, keep",
        ),
        (("show", "default", "--scope", "acme//ana"), "--scope acme//ana: has the empty, padded"),
        (("show", "default {bands.match = 0.9"), "the closing } of its keys is missing"),
        (("compare", "default", "none"), "policy none: there is no such policy or file"),
    ],
)
def test_what_there_is_not_is_refused_in_one_line(
    arguments: tuple[str, ...], message: str, memsieve: Memsieve
) -> None:
    result = memsieve("policy", *arguments)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert message in result.err


@pytest.mark.covers("B108", "B109")
@pytest.mark.parametrize(
    ("written", "instead", "problem"),
    [
        (
            "review = 0.85",
            "review = 0.99",
            "bands must fall: match 0.95 ≥ review 0.99 ≥ log 0.75; raise match, or lower review",
        ),
        (
            "log = 0.75",
            "log = 0.86",
            "bands must fall: match 0.95 ≥ review 0.85 ≥ log 0.86; raise review, or lower log",
        ),
        ("log = 0.75", "log = 1.3", "bands.log: should be less than or equal to 1, not 1.3"),
        (
            "similarity_min = 0.75",
            "similarity_mn = 0.75",
            "nominate.similarity_mn is not a policy key; did you mean nominate.similarity_min?",
        ),
        (
            f'model = "{MODEL}"',
            "",
            "model is missing: write the embedding model that the bands are for",
        ),
        (
            "[calibration]",
            '[scopes."acme/?"]\nenabled = false\n[calibration]',
            'scopes."acme/?": holds the wildcard ?; name one exact scope',
        ),
        (
            "[calibration]",
            "[scopes.acme.bands]\nmatch = 2\n[calibration]",
            "scopes.acme.bands.match: should be less than or equal to 1, not 2",
        ),
    ],
)
def test_a_policy_that_cannot_be_used_is_explained(
    written: str, instead: str, problem: str, memsieve: Memsieve, tmp_path: Path
) -> None:
    assert written in ZORK
    write(tmp_path / "mine.toml", ZORK.replace(written, instead, 1))
    result = memsieve("policy", "check", "mine.toml")
    assert (result.code, result.out) == (2, "")
    assert result.err == f"!!  mine.toml: {problem}\n"
    [found] = memsieve("policy", "check", "mine.toml", "--json").json()
    assert found == {"policy": "mine.toml", "id": None, "problems": [problem], "warnings": []}


def test_all_files_are_checked_and_all_their_problems_told(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    write(tmp_path / "broken.toml", 'name = "broken"\nbands = 3\n')
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    write(tmp_path / "syntax.toml", "name = ")
    result = memsieve(
        "policy", "check", "broken.toml", "default", "binary.toml", "syntax.toml", "nothing"
    )
    assert result.code == 2
    assert result.out == f"ok  default: {policies.load('default').id}\n"
    told = [line.split(": ")[0].removeprefix("!!  ") for line in result.err.splitlines()]
    assert told == [*["broken.toml"] * 3, "binary.toml", "syntax.toml", "nothing"]
    assert "syntax.toml: not TOML: Invalid value (at end of document)" in result.err
    assert "binary.toml: the file is not text in UTF-8" in result.err


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("default", []),
        ("two-threshold", ["merge.strategy is llm"]),
        ("memories-md", ["judges.chain names llm"]),
        ("agent-memory", ["judges.chain names llm", "merge.strategy is llm"]),
    ],
)
def test_what_the_settings_lack_is_a_warning(
    name: str, keys: list[str], memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = memsieve("policy", "check", name)
    assert result.code == 0
    warnings = result.err.splitlines()
    told = [line.partition(", but")[0].removeprefix(f"??  {name}: ") for line in warnings]
    assert told == keys
    assert all("set llm.base_url and llm.model" in line for line in warnings)
    monkeypatch.setenv("MEMSIEVE_LLM__BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("MEMSIEVE_LLM__MODEL", "any")
    assert memsieve("policy", "check", name).err == ""


def test_run_and_try_say_how_often_a_judge_that_is_not_configured_was_wanted(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    write_events(tmp_path / "ana.jsonl", "Ana likes tea.", "Ana enjoys tea.")
    silent = "no answer for 1 row from llm: not configured; set llm.base_url and llm.model"
    assert silent in memsieve("run", "ana.jsonl", "--policy", "memories-md").err
    tried = memsieve("try", "ana.jsonl", "--policy", "memories-md", "--policy", "default")
    assert f"memories-md: {silent}" in tried.err
    assert "default: no answer" not in tried.err
    told = memsieve("run", "ana.jsonl", "--store", "b", "--policy", "memories-md", "--json").json()
    assert told["degraded"] == {"llm: not configured": 1}


def test_a_warning_names_the_scope_that_asks_for_a_language_model(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    override = '[scopes."acme/ana".judges]\nchain = ["built-in", "llm"]\n'
    write(tmp_path / "mine.toml", f"{ZORK}\n{override}")
    result = memsieve("policy", "check", "mine.toml")
    assert result.code == 0
    assert 'mine.toml: scopes."acme/ana".judges.chain names llm' in result.err


def test_a_policy_for_another_model_is_a_warning(memsieve: Memsieve, tmp_path: Path) -> None:
    write(tmp_path / "mine.toml", ZORK.replace(MODEL, "BAAI/bge-small-en-v1.5"))
    result = memsieve("policy", "check", "mine.toml")
    assert result.code == 0
    assert "set embedder.model, or calibrate a policy for that model" in result.err


@pytest.mark.covers("B129")
def test_two_policies_are_compared_key_by_key(memsieve: Memsieve, tmp_path: Path) -> None:
    changed = ZORK.replace("match = 0.95", "match = 0.98").replace("chain = []", 'chain = ["llm"]')
    changed = changed.replace('date = "2026', 'date = "2027')
    mine = write(tmp_path / "mine.toml", f"{changed}\n[scopes.acme]\nenabled = false\n")
    ids = [policies.load(name).id for name in ("zork-semantic", str(mine))]
    result = memsieve("policy", "compare", "zork-semantic", "mine.toml")
    assert result.out.splitlines() == [
        f"{ids[0]} → {ids[1]}",
        "bands.match: 0.95 → 0.98",
        'judges.chain: [] → ["llm"]',
        "scopes.acme.enabled: unset → false",
    ]
    shown = memsieve("policy", "compare", "zork-semantic", "mine.toml", "--json").json()
    assert [shown["a"], shown["b"]] == ids
    assert shown["differences"] == [
        {"key": "bands.match", "a": 0.95, "b": 0.98},
        {"key": "judges.chain", "a": [], "b": ["llm"]},
        {"key": "scopes.acme.enabled", "a": None, "b": False},
    ]


def test_policies_that_decide_alike_have_no_differences(memsieve: Memsieve, tmp_path: Path) -> None:
    write(tmp_path / "same.toml", ZORK.replace("0.95", "0.950").replace("# ", "#"))
    result = memsieve("policy", "compare", "zork-semantic", "same.toml")
    assert (result.code, result.err) == (0, "their rules are equal\n")


def test_what_is_shown_cannot_steer_a_terminal(memsieve: Memsieve, tmp_path: Path) -> None:
    write(tmp_path / "odd.toml", ZORK.replace("# ", "# \u202e", 1))
    assert "\u202e" not in memsieve("policy", "show", "odd.toml").out


def test_what_is_in_force_in_a_scope_is_a_policy_but_for_its_name(memsieve: Memsieve) -> None:
    rules = memsieve("policy", "show", "adr-004", "--scope", "acme").out
    head = f'name = "mine"\nmodel = "{MODEL}"\n'
    tail = '[calibration]\ndataset = ""\ndate = ""\ncommand = ""\n'
    mine = parse(f"{head}{rules}\n{tail}")
    found = policies.differences(mine, policies.load("adr-004"))
    assert [one.key for one in found] == ["name"]


THRESHOLDS = "bands.match = 0.97, bands.review = 0.88, bands.log = 0.88, enabled = false"
CHANGED = f"two-threshold {{{THRESHOLDS}, nominate.similarity_min = 0.88}}"


@pytest.mark.covers("S1.28", "S1.25", "S1.26", "S1.27", "B108")
@pytest.mark.parametrize("where", ["file", "variable", "flag"])
def test_the_switch_and_the_thresholds_can_be_set_without_a_policy_file(
    where: str, memsieve: Memsieve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    match where:
        case "file":
            write(tmp_path / "memsieve.toml", f'policy = "{CHANGED}"\n')
        case "variable":
            monkeypatch.setenv("MEMSIEVE_POLICY", CHANGED)
        case _:
            pass
    flag = ("--policy", CHANGED) if where == "flag" else ()
    write_events(tmp_path / "events.jsonl", "Ana likes tea.", "Ana likes her tea.", scope="u/ana")
    assert memsieve("run", "events.jsonl", "--store", "store", *flag).code == 0
    made = decisions(tmp_path / "store")
    in_force = policies.load(CHANGED)
    assert in_force.id.startswith("two-threshold-")
    assert in_force.id != policies.load("two-threshold").id
    assert [(one.policy_id, one.evidence.reason) for one in made if isinstance(one, Insert)] == [
        (in_force.id, Reason.SWITCHED_OFF)
    ] * 2
    assert (in_force.bands.match, in_force.bands.review, in_force.enabled) == (0.97, 0.88, False)
    assert in_force.merge == policies.load("two-threshold").merge
    kept = (tmp_path / "store" / "policies" / f"{in_force.id}.json").read_text("utf-8")
    assert Policy.model_validate_json(kept) == in_force


def test_a_file_of_ones_own_can_be_changed_like_one_that_ships(tmp_path: Path) -> None:
    own = write(tmp_path / "mine.toml", ZORK)
    changed = policies.load(f'{own} {{scopes."zork/193".enabled = false}}')
    assert changed.rules(ScopeName("zork/193")).enabled is False
    assert changed.rules(ScopeName("zork/81")).enabled
    same = policies.load(f"{own} {{bands.match = 0.95}}")
    assert same.id == policies.load("zork-semantic").id


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (
            "default {bands.mach = 0.9}",
            "bands.mach is not a policy key; did you mean bands.match",
        ),
        ("default {bands.match = -0.5}", "bands.match: should be greater than or equal to 0"),
        ("default {bands.match}", "is not an inline TOML table"),
        ("default {model = 'other'}", "model is the policy's own"),
        ("zork-semantc {enabled = false}", "did you mean zork-semantic?"),
        ("{enabled = false}", "there is no such policy"),
    ],
)
def test_a_key_that_cannot_be_changed_is_explained(
    memsieve: Memsieve, policy: str, told: str
) -> None:
    refused = memsieve("policy", "show", policy)
    assert (refused.code, refused.out) == (2, "")
    assert told in refused.err


@pytest.mark.parametrize("base", ["default", "own.toml"])
def test_a_policy_says_only_what_differs_from_the_one_that_it_extends(
    base: str, tmp_path: Path
) -> None:
    """The id is that of all rules, wherever they are written; a file is looked for beside it."""
    whole = policies.load("default").model_dump(mode="json", exclude_none=True)
    rules = tmp_path / "rules"
    rules.mkdir()
    write(rules / "own.toml", as_toml(whole))
    changes = f'name = "child"\nextends = "{base}"\n[bands]\nmatch = 0.98\n'
    child = write(rules / "child.toml", changes)
    changed = overlaid(whole, {"name": "child", "bands": {"match": 0.98}})
    written_out = policies.load(str(write(tmp_path / "whole.toml", as_toml(changed))))
    assert policies.load(str(child)) == written_out
    assert policies.load(str(child)).id == written_out.id
    again = policies.load(f"{child} {{bands.match = 0.97}}")
    assert (again.bands.match, again.judges) == (0.97, written_out.judges)


def test_the_policies_that_extend_the_default_differ_in_what_they_say() -> None:
    for name, keys in {
        "careful": ["judges.one_memory_min", "judges.supersede_min"],
        "thorough": ["judges.words_below", "judges.one_memory_min"],
    }.items():
        found = policies.differences(policies.load("default"), policies.load(name))
        assert [one.key for one in found if one.key != "name"] == keys
        assert 'extends = "default"' in policies.text(name)


@pytest.mark.parametrize(
    ("extends", "said"),
    [
        (
            '"defaults"',
            "extends: policy defaults: there is no such policy or file; did you mean def",
        ),
        ('"careful"', "extends: careful extends default itself, and only a policy that extends"),
        ('"mine.toml"', "extends: it cannot extend itself; name another"),
        ('"other.toml"', "extends: other.toml extends mine.toml itself, and only a policy that"),
        ('"broken.toml"', "extends: policy broken.toml: not TOML: "),
        ("7", "extends: name one policy, or a file next to this one"),
    ],
)
def test_a_policy_that_cannot_be_extended_is_one_line(
    extends: str, said: str, memsieve: Memsieve, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(f'name = "mine"\nextends = {extends}\n', "utf-8")
    (tmp_path / "other.toml").write_text('name = "other"\nextends = "mine.toml"\n', "utf-8")
    (tmp_path / "broken.toml").write_text("name =", "utf-8")
    for command in (("check", "mine.toml"), ("show", "mine.toml")):
        told = memsieve("policy", *command)
        assert (told.code, told.err.count("\n")) == (2, 1)
        assert said in told.err


def test_a_policy_that_extends_has_a_name_of_its_own(memsieve: Memsieve, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "default"\n', "utf-8")
    told = memsieve("policy", "check", "mine.toml")
    assert (told.code, "name is missing: write what decisions are to call" in told.err) == (2, True)
