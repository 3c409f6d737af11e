"""No test here leaves a process behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.streams.real.running import no_process_left


@pytest.fixture(autouse=True)
def ends_processes() -> Iterator[None]:
    with no_process_left():
        yield
