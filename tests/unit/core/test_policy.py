from importlib import resources

import pytest

from streams.core.bands import Bands
from streams.core.policy import (
    Calibration,
    InvalidPolicy,
    MergeRule,
    Nominate,
    Policy,
    WithoutVerdict,
    parse,
)
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


@pytest.mark.covers("B108", "B109")
@pytest.mark.parametrize(
    ("written", "instead", "told"),
    [
        ('name = "test"', "", "name: Field required"),
        ('name = "test"', 'name = "../x"', "name: String should match"),
        ('model = "fake"', 'model = ""', "model: String should have at least 1 character"),
        ("log = 0.7", "", "bands.log: Field required"),
        ("log = 0.7", "log = 0.7\nlogs = 0.7", "bands.logs: Extra inputs are not permitted"),
        ("log = 0.7", "log = 0.81", "bands: Value error, bands must fall: match 0.95"),
        ("match = 0.95", "match = 0.79", "bands: Value error, bands must fall: match 0.79"),
        ("match = 0.95", "match = 1.01", "bands.match: Input should be less than or equal to 1"),
        ("match = 0.95", 'match = "high"', "bands.match: Input should be a valid number"),
        ("match = 0.95", "match = nan", "bands.match: "),
        ("log = 0.7", "log = 0.49", "policy: Value error, nominate.similarity_min 0.5 is above"),
        ('match = "merge"', 'match = "replace"', "without_verdict.match: Input should be 'merge'"),
        ("[calibration]", "[nominate]\nneighbours_max = 0\n[calibration]", "nominate.neighbours_m"),
        ("[calibration]", "[nominate]\nneighbours_max = 65\n[calibration]", "nominate.neighbours_"),
        ("[calibration]", "[merge]\ncharacters_max = 0\n[calibration]", "merge.characters_max: "),
        ("[calibration]", '[merge]\nstrategy = "llm"\n[calibration]', "merge.strategy: Input"),
        ("[calibration]", "[guards]\n[calibration]", "guards: Extra inputs are not permitted"),
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
    assert str(refused.value) == "name: Field required; bands.log: Field required"


def test_the_id_is_what_it_has_always_been() -> None:
    assert parse(TEXT).id == "test-16c85aa7a8cb"


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
    shipped = resources.files("streams") / "policies"
    names = {file.name: parse(file.read_text(encoding="utf-8")).name for file in shipped.iterdir()}
    assert names["default.toml"] == "default"
    assert names == {f"{name}.toml": name for name in names.values()}
