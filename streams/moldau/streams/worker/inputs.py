"""Decide whether an input was deleted, which the group notices as a rebalance; the worker looks.

A broker that has just started may not know a topic yet, and a look may fail. So an input counts as
deleted when all looks of some seconds that were answered did not find it; the worker goes on
meanwhile.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from moldau.streams.problems import InputDeleted

GONE_S: Final = 10.0
"""How long an input has to be gone to count as deleted."""
LOOK_S: Final = 1.0
"""The time between two looks, and how long one may take."""


class InputWatch:
    """The inputs of an app, and since when the cluster does not know them."""

    def __init__(self, app: str, inputs: Sequence[str]) -> None:
        self._app = app
        self.inputs = tuple(inputs)
        self._look_at: float | None = None
        self._gone_since: dict[str, float] = {}

    @property
    def is_doubted(self) -> bool:
        """Whether an input may be gone."""
        return self._look_at is not None

    def doubt(self, now: float) -> None:
        """Look at once: something has changed that may be a deleted input."""
        self._look_at = now

    def is_due(self, now: float) -> bool:
        """Whether it is time to look."""
        return self._look_at is not None and now >= self._look_at

    def on_look(self, there: Container[str] | None, now: float) -> None:
        """Take the topics that exist; None if the look failed, which says nothing. Raise
        InputDeleted if inputs have been gone for long enough."""
        self._look_at = now + LOOK_S
        if there is None:
            return
        gone = [name for name in self.inputs if name not in there]
        self._gone_since = {name: self._gone_since.get(name, now) for name in gone}
        if not gone:
            self._look_at = None
        if any(now - since >= GONE_S for since in self._gone_since.values()):
            raise InputDeleted(self._app, gone)
