"""`pytest --rewrite` writes into the scripts what the core gives, instead of comparing."""

from __future__ import annotations

from contextlib import suppress

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    # another suite of scripts may have added it already
    with suppress(ValueError):
        parser.addoption("--rewrite", action="store_true", help="write the answers of scripts anew")


@pytest.fixture
def rewrites(request: pytest.FixtureRequest) -> bool:
    """Whether scripts are to be written."""
    return bool(request.config.getoption("--rewrite", default=False))
