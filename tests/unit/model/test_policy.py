from importlib import resources

import pytest

from streams.model.bands import Bands
from streams.model.policy import (
    Calibration,
    InvalidPolicy,
    MergeRule,
    Nominate,
    Policy,
    WithoutVerdict,
    parse,
)
from streams.store.app import policies
from tests.builders import policy

TEXT = """
name = "test"
model = "fake"

[bands]
match = 0.95
review = 0.8
log = 0.7

[without_verdict]
match = "merge"
review = "keep-both"

[calibration]
dataset = "none"
date = "2026-03-01"
command = "none"
"""

SAME_RULES = """# The same, written otherwise.
model = 'fake'
name = "test"
merge = { characters_max = 600, strategy = "append" }
without_verdict = { review = "keep-both", match = "merge" }
bands = { log = 0.70, review = 0.80, match = 0.950 }
nominate = { similarity_min = 0.5, neighbours_max = 8 }  # the defaults
calibration = { dataset = "another", date = "2026-04-01", command = "another" }
"""


def test_absent_sections_have_their_defaults() -> None:
    assert parse(TEXT) == Policy(
        name="test",
        model=policy().model,
        bands=Bands(match=0.95, review=0.8, log=0.7),
        nominate=Nominate(neighbours_max=8, similarity_min=0.5),
        without_verdict=WithoutVerdict(match="merge", review="keep-both"),
        merge=MergeRule(strategy="append", characters_max=600),
        calibration=Calibration(dataset="none", date="2026-03-01", command="none"),
    )


@pytest.mark.covers("B108", "B109", "D32")
@pytest.mark.parametrize(
    ("written", "instead", "told"),
    [
        ('name = "test"', "", "name is missing: write what decisions are to call the policy"),
        ('name = "test"', 'name = "../x"', "name: should match pattern"),
        ('model = "fake"', "", "model is missing: write the embedding model that the bands are f"),
        ('model = "fake"', 'model = ""', "model: should have at least 1 character"),
        ("log = 0.7", "", "bands.log is missing: add it"),
        ("log = 0.7", "log = 0.7\nlogs = 0.7", "bands.logs is not a policy key; did you mean ba"),
        ("log = 0.7", "log = 0.7\nwidth = 1", "bands.width is not a policy key; there are mat"),
        ("log = 0.7", "log = 0.7\nguards = true", "bands.guards is not a policy key; did you "),
        ("log = 0.7", "log = 0.81", "bands must fall: match 0.95 ≥ review 0.8 ≥ log 0.81; raise r"),
        ("match = 0.95", "match = 0.79", "bands must fall: match 0.79 ≥ review 0.8 ≥ log 0.7; ra"),
        ("match = 0.95", "match = 1.01", "bands.match: should be less than or equal to 1, not 1"),
        ("match = 0.95", 'match = "high"', "bands.match: should be a valid number, unable to"),
        ("match = 0.95", "match = [0.9, 1]", "bands.match: should be a valid number, not [0.9, 1]"),
        ("match = 0.95", "match = nan", "bands.match: should be a finite number"),
        ("log = 0.7", "log = 0.49", "nominate.similarity_min 0.5 is above bands.log 0.49: neighb"),
        ('match = "merge"', 'match = "delete"', "without_verdict.match: should be 'reinforce', '"),
        ("[calibration]", "[nominate]\nneighbours_max = 0\n[calibration]", "nominate.neighbours_m"),
        ("[calibration]", "[nominate]\nneighbours_max = 65\n[calibration]", "nominate.neighbours_"),
        ("[calibration]", "[merge]\ncharacters_max = 0\n[calibration]", "merge.characters_max: "),
        ("[calibration]", '[merge]\nstrategy = "vote"\n[calibration]', "merge.strategy: should be"),
        ("[calibration]", "[guards]\n[calibration]", "guards: should be a valid boolean, not {}"),
        (
            "[calibration]",
            '[judges]\nchain = ["llm", "gpt"]\n[calibration]',
            "judges.chain, entry 2: should be 'built-in' or 'llm', not \"gpt\"",
        ),
        (
            "[calibration]",
            '[judges]\nchain = ["llm", "llm"]\n[calibration]',
            "judges: chain names a judge twice: llm, llm",
        ),
        (
            "[calibration]",
            '[scopes."acme/*".bands]\nmatch = 0.9\n[calibration]',
            'scopes."acme/*": holds the wildcard *; name one exact scope',
        ),
        (
            "[calibration]",
            '[scopes."acme/a b".bands]\nmacth = 0.9\n[calibration]',
            'scopes."acme/a b".bands.macth is not a policy key; did you mean scopes."acme/a b".b',
        ),
        (
            "[calibration]",
            "[scopes.acme.bands]\nmatch = 0.5\n[calibration]",
            "scopes.acme.bands: bands must fall: match 0.5",
        ),
        ("[calibration]", "[scopes.acme]\nmodel = 'x'\n[calibration]", "scopes.acme.model is not"),
        ("[calibration]", "calibration", "not TOML: "),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused_in_one_line_that_names_the_key(
    written: str, instead: str, told: str
) -> None:
    assert TEXT.count(f"\n{written}") == 1
    with pytest.raises(InvalidPolicy) as refused:
        parse(TEXT.replace(f"\n{written}", f"\n{instead}"))
    message = str(refused.value)
    assert message.startswith(told)
    assert "\n" not in message


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InvalidPolicy) as refused:
        parse(TEXT.replace("log = 0.7", "").replace('name = "test"', ""))
    bands, name = refused.value.problems
    assert bands == "bands.log is missing: add it"
    assert name.startswith("name is missing: ")
    assert str(refused.value) == f"{bands}; {name}"


def test_the_id_is_the_same_on_every_machine_and_day() -> None:
    assert parse(TEXT).id == "test-936ade91f246"


def test_comments_layout_and_the_calibrations_provenance_leave_the_id() -> None:
    assert parse(SAME_RULES).id == parse(TEXT).id


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ('name = "test"', 'name = "best"'),
        ('model = "fake"', 'model = "other"'),
        ("match = 0.95", "match = 0.951"),
        ("review = 0.8", "review = 0.81"),
        ("log = 0.7", "log = 0.71"),
        ('match = "merge"', 'match = "keep-both"'),
        ('review = "keep-both"', 'review = "merge"'),
        ("[calibration]", "[nominate]\nneighbours_max = 9\n[calibration]"),
        ("[calibration]", "[nominate]\nsimilarity_min = 0.4\n[calibration]"),
        ("[calibration]", "[merge]\ncharacters_max = 601\n[calibration]"),
    ],
)
def test_every_rule_changes_the_id(written: str, instead: str) -> None:
    assert TEXT.count(f"\n{written}") == 1
    assert parse(TEXT.replace(f"\n{written}", f"\n{instead}")).id != parse(TEXT).id


def test_the_policies_that_ship_can_be_used() -> None:
    shipped = resources.files("streams") / "store" / "policies"
    names = {file.name: policies.load(file.name[:-5]).name for file in shipped.iterdir()}
    assert names["default.toml"] == "default"
    assert names == {f"{name}.toml": name for name in names.values()}


def test_the_language_of_a_text_matters_where_guards_or_the_built_in_judge_read_it_in_any_scope() -> (
    None
):
    by_similarity = TEXT.replace("[bands]", "guards = false\njudges.chain = []\n[bands]")
    assert parse(TEXT).tells_languages
    assert not parse(by_similarity).tells_languages
    for rule in ("guards = true", 'judges.chain = ["built-in"]'):
        assert parse(by_similarity + f"[scopes.acme]\n{rule}\n").tells_languages
