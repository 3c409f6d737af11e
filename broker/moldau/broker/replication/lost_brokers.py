"""Brokers that this node has just lost its connection to, or that were fenced a moment ago. Pure.

A killed broker closes all its connections at once, and a client that loses one asks another broker
for metadata:

1. Broker 1 dies. Its clients and the other brokers see the ends of their connections.
2. A client asks broker 2 for the leaders. Broker 2 does not know better yet, and names broker 1.
3. Some milliseconds later broker 1 is fenced, and others lead what it led.
4. The client knows of no reason to ask again. Kafka's C client waits for its timer of one second,
   others for their backoff.

So an answer that names a leader that is lost waits until it is fenced or back. A false alarm costs
little: a broker that lives is connected to again after a moment.

A fenced broker stays among the brokers of an answer about named topics for a moment. The C client
drops a broker that is not named there, and with it the new leaders of its partitions, if it hears
of both in one answer: it then waits for the same timer. An answer about no topic, or about all, has
only the living brokers: the client may be about to ask each of them.

Invariant: a broker is lost for `LOST_MS` at most since its connection ended, so answers are late by
that at most, whatever happens to the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LOST_MS: Final = 1_000
"""Longer than an election of the controller and the fencing that follows take."""
FENCED_MS: Final = 3_000
"""Longer than clients take to hear of the new leaders."""


class LostBrokers:
    """The lost and the lately fenced brokers; see the module."""

    __slots__ = ("_fenced_ms", "_lost_ms")

    def __init__(self) -> None:
        self._lost_ms: dict[int, int] = {}
        """The time at which each lost broker's connection ended."""
        self._fenced_ms: dict[int, int] = {}

    def on_lost(self, broker_id: int, now_ms: int) -> None:
        """A connection to the broker has ended while the broker owed it an answer."""
        self._lost_ms[broker_id] = now_ms

    def on_connected(self, broker_id: int) -> bool:
        """The broker lives: it is connected to again. Return whether it was lost."""
        return self._lost_ms.pop(broker_id, None) is not None

    def on_fenced(self, broker_id: int, now_ms: int) -> None:
        """The broker is fenced from now on. What it led has other leaders, or none."""
        self._lost_ms.pop(broker_id, None)
        self._fenced_ms[broker_id] = now_ms

    def are_any_lost(self, broker_ids: Iterable[int], now_ms: int) -> bool:
        """Whether one of these brokers is lost."""
        lost_ms = self._lost_ms
        if not lost_ms:
            return False
        return any(now_ms - lost_ms[each] < LOST_MS for each in broker_ids if each in lost_ms)

    def lately_fenced(self, now_ms: int) -> frozenset[int]:
        """Return the brokers that were fenced a moment ago."""
        if not self._fenced_ms:
            return frozenset()
        self._fenced_ms = {
            each: since_ms
            for each, since_ms in self._fenced_ms.items()
            if now_ms - since_ms < FENCED_MS
        }
        return frozenset(self._fenced_ms)
