"""Patches of the standard library that one thread sees.

A broker may run in another thread of the tests' process (`moldau_broker`). A call that fails for it
too takes its log directory out of service, and every test after that fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest


def patch_here(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, stand_in: Callable[..., Any]
) -> None:
    """Replace a function for the calling thread. Other threads keep the one that was there."""
    real, here = getattr(owner, name), threading.get_ident()

    def either(*arguments: Any, **named: Any) -> Any:
        called = stand_in if threading.get_ident() == here else real
        return called(*arguments, **named)

    monkeypatch.setattr(owner, name, either)
