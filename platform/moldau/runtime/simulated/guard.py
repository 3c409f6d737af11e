"""Blocks the standard library's access to the real world, for the code of nodes.

Invariants: a function is blocked while the simulated loop runs, and only for the code of a node:
the test around it, the driver and other threads may call it. What the standard library itself needs
(the time in a log record, the seed of a `Random`) still works, because functions that it uses check
their caller.

The guard detects mistakes, but is not a wall. It catches calls through the module (`time.time()`)
and classes; it does not catch a name that was imported before (`from time import time`),
`datetime.now()`, files opened by `pathlib`, and calls of compiled code. `time.perf_counter()` is
allowed, to measure the simulation itself.
"""

from __future__ import annotations

import builtins
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from asyncio import _get_running_loop
from collections.abc import Callable, Iterator
from contextvars import copy_context
from functools import wraps
from typing import Any

from moldau.runtime.simulated.incarnation import CURRENT
from moldau.runtime.simulated.refusal import refuse

_CLOCK = "ask `runtime.clock`"
_CHANCE = "draw from `runtime.random`"
_FILES = "use `runtime.files`"
_NETWORK = "use `runtime.network`"
_TASKS = "use `runtime.spawn` or `runtime.run_blocking`"
_PROCESS = "a simulated node is one process; start another node"
_SIGNAL = "stop the node through its `Node`"
_SLEEP = "await `asyncio.sleep`"
_OWN = "moldau.runtime"
_LIBRARIES = frozenset({"httpcore2", "uvicorn"})
"""Libraries that read the clock without using it: httpcore does, if no idle time is limited, and
uvicorn for the Date header."""

_Row = tuple[Any, str, str]

USED_BY_THE_LIBRARY: tuple[_Row, ...] = (
    (time, "time time_ns monotonic monotonic_ns", _CLOCK),
    (os, "urandom", _CHANCE),
    (uuid, "uuid1 uuid4", _CHANCE),
    (secrets, "choice randbelow randbits token_bytes token_hex token_urlsafe", _CHANCE),
    (random, "choice choices gauss getrandbits randbytes randint random randrange", _CHANCE),
    (random, "sample seed shuffle uniform", _CHANCE),
    (builtins, "open", _FILES),
    (os, "open mkdir remove rename replace rmdir unlink", _FILES),
)
"""Module, functions, and the alternative for nodes; the standard library itself may call them."""

USED_BY_NOBODY: tuple[_Row, ...] = (
    (time, "sleep", _SLEEP),
    (threading.Thread, "start", _TASKS),
    (subprocess.Popen, "__init__", _PROCESS),
    (os, "fork posix_spawn system", _PROCESS),
    (socket.socket, "__init__", _NETWORK),
    (socket, "getaddrinfo gethostbyname", _NETWORK),
    (signal, "alarm setitimer signal", _SIGNAL),
)
"""The same, but blocked for every caller that works for a node."""


class _Door:
    """A door: one function of the standard library, and its guard."""

    __slots__ = ("_guarded", "_instead", "_name", "_original", "_owner", "_to_library")

    def __init__(self, owner: Any, name: str, instead: str, *, to_library: bool) -> None:
        self._owner = owner
        self._name = name
        self._instead = instead
        self._to_library = to_library
        self._original: Any = None
        self._guarded: Any = None

    def shut(self) -> None:
        """Replace the function by its guard."""
        original = getattr(self._owner, self._name)
        if original is not self._original:
            self._original, self._guarded = original, self._guard(original)
        setattr(self._owner, self._name, self._guarded)

    def open(self) -> None:
        """Restore the function."""
        setattr(self._owner, self._name, self._original)

    def _guard(self, original: Callable[..., Any]) -> Any:
        parts = (self._owner.__name__, self._name)
        name = ".".join(part for part in parts if part not in ("builtins", "__init__"))
        instead, to_library = self._instead, self._to_library

        @wraps(original)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if CURRENT.get() is not None or _is_nodes_turn():
                caller = sys._getframe(1).f_globals.get("__name__", "")
                if not (to_library and _is_library(caller)):
                    refuse(f"{name}()", instead)
            return original(*args, **kwargs)

        return guarded


def _is_nodes_turn() -> bool:
    """Whether code without an incarnation, in a new `Context()`, belongs to a node."""
    loop: Any = _get_running_loop()
    return getattr(loop, "life", None) is not None and CURRENT not in copy_context()


def _is_library(module: str) -> bool:
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names or top in _LIBRARIES or module.startswith(_OWN)


def _doors(rows: tuple[_Row, ...], *, to_library: bool) -> Iterator[_Door]:
    for owner, names, instead in rows:
        for name in names.split():
            if hasattr(owner, name):
                yield _Door(owner, name, instead, to_library=to_library)


class Guard:
    """Blocks the functions while it is active."""

    def __init__(self) -> None:
        self._doors = [
            *_doors(USED_BY_THE_LIBRARY, to_library=True),
            *_doors(USED_BY_NOBODY, to_library=False),
        ]

    def __enter__(self) -> None:
        for door in self._doors:
            door.shut()

    def __exit__(self, *_: object) -> None:
        for door in self._doors:
            door.open()


GUARD = Guard()
"""One guard for the process: one loop runs in a thread at a time, and the functions are global."""
