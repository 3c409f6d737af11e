"""A test that leaves a connection open fails itself, not a later one at random.

An event loop of asyncio that ends before its connections says nothing of them. Python warns when
they are collected as garbage, and the warning fails whatever test runs then. So each loop is looked
at when it is closed. What a test collects itself has had its warning; uvloop warns in time.
"""

from __future__ import annotations

import weakref
from asyncio import Transport
from asyncio.selector_events import BaseSelectorEventLoop
from typing import Any, Final

_left: Final[list[weakref.ref[Transport]]] = []


def look_at_ends_of_loops() -> None:
    """Note what is open in each event loop that is closed from now on."""
    close = BaseSelectorEventLoop.close

    def noted(self: Any) -> None:
        _left.extend(map(weakref.ref, self._transports.values()))
        close(self)

    BaseSelectorEventLoop.close = noted  # type: ignore[method-assign]


def fail_if_a_connection_is_left() -> None:
    """Close the connections of loops that have ended, and fail with their names."""
    left = []
    while _left:
        transport: Any = _left.pop()()
        if transport is not None and transport._sock is not None:
            left.append(_named(transport))
            transport._sock.close()
            transport._sock, transport._closing = None, True
    assert not left, f"connections are open, and their event loops are closed: {left}"


def _named(transport: Transport) -> str:
    protocol = type(transport.get_protocol())
    ends = [transport.get_extra_info(each) for each in ("sockname", "peername")]
    return f"{protocol.__module__}.{protocol.__qualname__} at {ends[0]} to {ends[1]}"
