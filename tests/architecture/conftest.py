"""What the rules found is kept for the next run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.architecture import facts


@pytest.fixture(scope="session", autouse=True)
def _facts_are_kept() -> Iterator[None]:
    yield
    facts.save()
