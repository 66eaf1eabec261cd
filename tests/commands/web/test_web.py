"""`memsieve web`, where it cannot be."""

import pytest

from tests.commands.conftest import Memsieve


@pytest.mark.parametrize(
    ("there", "named"), [((), "fastapi and jinja2"), (("fastapi",), "jinja2")], ids=str
)
def test_without_its_extra_it_says_what_to_install(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], named: str
) -> None:
    def found(name: str) -> object | None:
        return name if name in there else None

    monkeypatch.setattr("streams.web.cli.find_spec", found)
    refused = memsieve("web", "--store", "none")
    assert refused.err == f"memsieve: the page is made with {named}: pip install 'memsieve[web]'\n"
    assert refused.code == 2
