"""What holds for all tests, and what many of them use.

Properties have no deadline: how long an example takes is the machine's business, and a collection
of garbage in its midst is nobody's fault.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("without-deadline", settings(), deadline=None)
settings.load_profile("without-deadline")


@pytest.fixture
def no_world_is_left() -> Iterator[None]:
    """A simulated world is a cycle with disks in it, up to 300 MB: many would fill the machine."""
    yield
    gc.collect()
