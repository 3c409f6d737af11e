"""What an executor does to its own process is undone after each test."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def untuned() -> Iterator[None]:
    """A worker of Spark tunes its process when it reads first."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
