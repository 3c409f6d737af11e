"""Ctrl-C inside the test's own process."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """A process that a shell starts in the background ignores SIGINT: not while this test runs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
