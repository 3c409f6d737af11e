"""Which brokers have been heard of lately. Not in the log: it is forgotten with the controller.

Invariant: a broker that is registered and not fenced has a time of contact, so silence is noticed
also when it began before this controller took over.
"""

from __future__ import annotations

from moldau.broker.controller.brokers import Broker
from moldau.broker.controller.image import Image


class Liveness:
    """When each broker was heard of last."""

    __slots__ = ("_contacts_ms", "_session_timeout_ms")

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._contacts_ms: dict[int, int] = {}

    def take_over(self, image: Image, left_id: int | None, now_ms: int) -> None:
        """This controller became active: all get a whole session to be heard again, but `left_id`:
        the broker of this process that is not up yet, whose earlier incarnation has ended."""
        self._contacts_ms = {
            each.broker_id: now_ms
            for each in image.brokers.by_id.values()
            if not each.is_fenced and each.broker_id != left_id
        }

    def touch(self, broker_id: int, now_ms: int) -> None:
        """The broker was heard of."""
        self._contacts_ms[broker_id] = now_ms

    def forget(self, broker_id: int) -> None:
        """The broker is gone or fenced."""
        self._contacts_ms.pop(broker_id, None)

    def is_alive(self, broker_id: int, now_ms: int) -> bool:
        """Whether the broker was heard of within its session."""
        contact_ms = self._contacts_ms.get(broker_id)
        return contact_ms is not None and now_ms - contact_ms < self._session_timeout_ms

    def silent(self, image: Image, now_ms: int) -> list[Broker]:
        """The brokers to be fenced: not fenced yet, and not heard of for a session."""
        return [
            each
            for each in image.brokers.by_id.values()
            if not each.is_fenced and not self.is_alive(each.broker_id, now_ms)
        ]

    def next_expiry_ms(self, image: Image) -> int | None:
        """When the next session ends if nobody is heard of; None when there is none."""
        ends = [
            self._contacts_ms[each.broker_id] + self._session_timeout_ms
            for each in image.brokers.by_id.values()
            if not each.is_fenced and each.broker_id in self._contacts_ms
        ]
        return min(ends, default=None)
