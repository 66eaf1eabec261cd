"""`memsieve service web`, where it cannot be."""

import pytest

from streams.store.world.extras import how_to_install
from tests.commands.conftest import Memsieve


@pytest.mark.parametrize(("there", "named"), [((), "fastapi"), (("fastapi",), "jinja2")], ids=str)
def test_without_its_extra_it_says_what_to_install(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], named: str
) -> None:
    def found(name: str) -> object | None:
        return name if name in there else None

    monkeypatch.setattr("streams.store.world.extras.find_spec", found)
    refused = memsieve("service", "web", "--store", "none")
    told = f"the page needs an extra: {how_to_install('web')} ({named} is missing)"
    assert (refused.code, refused.err) == (2, f"memsieve: {told}\n")
