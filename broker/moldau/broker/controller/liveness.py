"""The last contact with each broker. It is not in the log, so a new controller starts without it.

Invariant: every registered and unfenced broker has a contact time, so its silence is noticed even
if it began before this controller took over. Only the broker of this process may lack one while it
is not up; it then counts as silent.
"""

from __future__ import annotations

from moldau.broker.controller.brokers import Broker
from moldau.broker.controller.image import Image


class Liveness:
    """The time of the last contact with each broker."""

    __slots__ = ("_contacts_ms", "_session_timeout_ms")

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._contacts_ms: dict[int, int] = {}

    def take_over(self, image: Image, left_id: int | None, now_ms: int) -> None:
        """Start a full session for every unfenced broker, when this controller becomes active. The
        exception is `left_id`: the broker of this process, if it is not up yet, because its earlier
        incarnation has ended."""
        self._contacts_ms = {
            each.broker_id: now_ms
            for each in image.brokers.by_id.values()
            if not each.is_fenced and each.broker_id != left_id
        }

    def touch(self, broker_id: int, now_ms: int) -> None:
        """Note a contact with the broker."""
        self._contacts_ms[broker_id] = now_ms

    def forget(self, broker_id: int) -> None:
        """Drop a broker that is gone or fenced."""
        self._contacts_ms.pop(broker_id, None)

    def is_alive(self, broker_id: int, now_ms: int) -> bool:
        """Whether the last contact was within the broker's session."""
        contact_ms = self._contacts_ms.get(broker_id)
        return contact_ms is not None and now_ms - contact_ms < self._session_timeout_ms

    def silent(self, image: Image, now_ms: int) -> list[Broker]:
        """Return the brokers to fence: unfenced, and without contact for a session."""
        return [
            each
            for each in image.brokers.by_id.values()
            if not each.is_fenced and not self.is_alive(each.broker_id, now_ms)
        ]
