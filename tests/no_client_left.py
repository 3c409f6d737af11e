"""A file that leaves a blocking client open fails itself, not the tests that run after it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Final

import pytest

from moldau.runtime.loop_thread import _PROCESS, Tenant, leave

ENDING: Final = "end traces"
"""The thread that pushes the last spans of a client, which does not wait for it."""


@pytest.fixture(scope="module", autouse=True)
def no_client_is_left() -> Iterator[None]:
    """Close what the tests of a file have left on the loop of blocking clients, and tell of it."""
    yield
    left = close_what_is_left()
    assert not left, f"blocking clients are still open: {[_named(each) for each in left]}"


def close_what_is_left() -> list[Tenant]:
    """Close the clients on the loop of blocking clients. Return them."""
    for thread in threading.enumerate():
        if thread.name.endswith(ENDING):
            thread.join(60)
    if not _PROCESS.tenants:
        return []
    gc.collect()
    left = list(_PROCESS.tenants)
    for tenant in left:
        tenant.close()
        leave(tenant)
    return left


def _named(tenant: object) -> str:
    weak = getattr(tenant, "_tenant", None)
    return repr(weak() if weak is not None else tenant)
