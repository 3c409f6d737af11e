"""Forks: tell objects in the child that they are in another process now.

    hear_of_forks(connections)        # in each child: connections.forked()

A child has copies of the parent's objects and descriptors, and none of its threads. What it writes
to such a descriptor goes out on the parent's connection, and what it does with an event loop of the
parent may reach that loop, for their epoll is one. So an object with connections drops them in
`forked`, and lets their descriptors go.

A child that imports what another thread of its parent was just importing waits for that thread for
ever, for Python's locks of modules are not renewed. So what is imported late, maybe in any thread,
is imported by `import_whole`, and no thread forks meanwhile.

Invariants: each registered object is told before any other code of the child runs, even if another
one fails; registering keeps no object alive.
"""

from __future__ import annotations

import logging  # noqa: F401 - imports may want its lock, which a fork so takes after the one here
import os
import threading
from contextlib import ExitStack
from errno import EMFILE, ENFILE
from importlib import import_module
from types import ModuleType
from typing import Final, Protocol
from weakref import WeakSet


class Forked(Protocol):
    """An object with something that a child must not use."""

    def forked(self) -> None:
        """This is another process now."""


_HEARERS: Final[WeakSet[Forked]] = WeakSet()
_IMPORTING: Final = threading.RLock()


def hear_of_forks(hearer: Forked) -> None:
    """From now on it is told."""
    _HEARERS.add(hearer)


def let_go(descriptor: int) -> None:
    """In a child: the number stays and leads nowhere, so that whatever objects of the parent still
    do with it, when they are collected at the latest, does not reach the parent's connection."""
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
    except OSError as error:
        if error.errno not in (EMFILE, ENFILE):
            raise
        os.close(descriptor)  # now its number is the only one that is free
        nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere == descriptor:
        return
    try:
        os.dup2(nowhere, descriptor, inheritable=False)
    finally:
        os.close(nowhere)


def import_whole(name: str) -> ModuleType:
    """The module; no other thread forks while it is being imported."""
    with _IMPORTING:
        return import_module(name)


def _forked() -> None:
    with ExitStack() as told:
        for hearer in tuple(_HEARERS):
            told.callback(hearer.forked)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_IMPORTING.acquire,
        after_in_parent=_IMPORTING.release,
        after_in_child=_IMPORTING.release,
    )
    os.register_at_fork(after_in_child=_forked)
