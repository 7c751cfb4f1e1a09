"""Fixtures of all tests: async tests run on asyncio and on trio."""

from collections.abc import Iterator

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def workshop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[object]:
    """Return where the programs of all selected tests are being installed and played."""
    from workshop import PROGRAMS, open_workshop

    wanted = {
        item.callspec.params["program"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and "workshop" in item.fixturenames
    }
    names = [name for name in PROGRAMS if name in wanted]
    with open_workshop(tmp_path_factory.mktemp("workshop"), names) as opened:
        yield opened
