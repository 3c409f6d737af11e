"""Periodic work of the controller, besides watching sessions.

Invariant: work that filled a batch is due again at once; otherwise it pauses for its interval. A
controller that takes over begins with such a pause.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from moldau.broker.controller.elections import elect_uncleanly, give_back
from moldau.broker.controller.image import Image
from moldau.broker.controller.outcome import DecisionInputs
from moldau.broker.controller.rules import Rules
from moldau.broker.controller.token_changes import sweep
from moldau.protocol.declare import MetadataRecord

MOST: Final = 1000
"""The maximum number of records of one turn of periodic work."""

Work: TypeAlias = Callable[[Image, Rules, int, int], tuple[MetadataRecord, ...]]
"""Takes the most records that it may return, and the time of day."""


def _give_back(image: Image, rules: Rules, most: int, wall_ms: int) -> tuple[MetadataRecord, ...]:
    return give_back(image, rules, most)


def _elect(image: Image, rules: Rules, most: int, wall_ms: int) -> tuple[MetadataRecord, ...]:
    return elect_uncleanly(image, rules, most)


class Periodic:
    """The periodic work of one active controller."""

    __slots__ = ("_due_ms", "_rules", "_works")

    def __init__(self, rules: Rules) -> None:
        given: tuple[tuple[Work, int | None], ...] = (
            (_give_back, rules.rebalance_interval_ms),
            (_elect, rules.unclean_interval_ms),
            (sweep, None if rules.tokens is None else rules.tokens.check_interval_ms),
        )
        self._rules = rules
        self._works = [(work, interval) for work, interval in given if interval is not None]
        self._due_ms: dict[Work, int] = {}

    def take_over(self, now_ms: int) -> None:
        """Start the intervals, when this controller becomes active."""
        self._due_ms = {work: now_ms + interval_ms for work, interval_ms in self._works}

    def on_tick(self, image: Image, inputs: DecisionInputs) -> tuple[MetadataRecord, ...]:
        """Return the records of one kind of work that is due. Call it until it returns none."""
        now_ms = inputs.now_ms
        for work, interval_ms in self._works:
            if now_ms < self._due_ms.get(work, now_ms + 1):
                continue
            records = work(image, self._rules, MOST, inputs.wall_ms)
            if len(records) < MOST:
                self._due_ms[work] = now_ms + interval_ms
            if records:
                return records
        return ()
