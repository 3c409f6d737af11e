"""Notifies objects in a forked child that they are in another process now.

    hear_of_forks(connections)        # in each child: connections.forked()

A child has copies of the parent's objects and descriptors, but none of its threads. Data that it
writes to such a descriptor is sent on the parent's connection, and its use of the parent's event
loop may affect that loop, since they share one epoll. So in `forked` an object with connections
drops them, and releases their descriptors.

A child that imports a module, which another thread of its parent was just importing, waits for that
thread for ever, because Python's module locks are not reset. So late imports, which may happen in
any thread, use `import_whole`, and no thread forks meanwhile.

Invariants: each registered object is notified before any other code of the child runs, even if
another one fails; registering does not keep an object alive.
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
    """An object with resources that a child must not use."""

    def forked(self) -> None:
        """Drop the resources: this is another process now."""


_HEARERS: Final[WeakSet[Forked]] = WeakSet()
_IMPORTING: Final = threading.RLock()


def hear_of_forks(hearer: Forked) -> None:
    """Register an object, to be notified of forks."""
    _HEARERS.add(hearer)


def let_go(descriptor: int) -> None:
    """Let the descriptor lead nowhere, in a child: the number stays open, so that the parent's
    objects, which use it when they are collected at the latest, cannot reach the parent's
    connection."""
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
    except OSError as error:
        if error.errno not in (EMFILE, ENFILE):
            raise
        os.close(descriptor)  # now its number is the only free one
        nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere == descriptor:
        return
    try:
        os.dup2(nowhere, descriptor, inheritable=False)
    finally:
        os.close(nowhere)


def leave_to_parent(socket: object) -> None:
    """Let the descriptor of a socket lead nowhere, in a child. A simulated one has none."""
    fileno = getattr(socket, "fileno", None)
    if fileno is not None and fileno() >= 0:  # still open
        let_go(fileno())


def import_whole(name: str) -> ModuleType:
    """Return the module; no other thread forks while it is being imported."""
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
