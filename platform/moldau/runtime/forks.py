"""Forks: who hears of one, and what a child does with what is its parent's.

    hear_of_forks(connections)        # in each child: connections.forked()

A child has copies of the parent's objects and descriptors, and none of its threads. What it writes
to such a descriptor goes out on the parent's connection, and what it does with an event loop of the
parent may reach that loop, for their epoll is one. So who has connections drops them in `forked`,
and lets their descriptors go.

Invariants: who hears is told before any other code of the child runs; nobody is kept alive by
hearing.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class Forked(Protocol):
    """Who has something that a child must not use."""

    def forked(self) -> None:
        """This is another process now."""


_HEARERS: Final[WeakSet[Forked]] = WeakSet()


def hear_of_forks(hearer: Forked) -> None:
    """From now on it is told."""
    _HEARERS.add(hearer)


def let_go(descriptor: int) -> None:
    """In a child: the number stays and leads nowhere, so that whatever objects of the parent still
    do with it, when they are collected at the latest, does not reach the parent's connection."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(nowhere, descriptor, inheritable=False)
    finally:
        os.close(nowhere)


def _forked() -> None:
    for hearer in tuple(_HEARERS):
        hearer.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
