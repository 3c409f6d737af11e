"""How long a reader waits for records that a log has: it says so, and gives up in the end."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from moldau.client import TopicPartition
from moldau.client.sync import Consumer
from moldau.link.settings import default_api_timeout_ms
from moldau.streams.spark.waiting import BrokersAway

LOG: Final = logging.getLogger("moldau.streams")
_TELL_S: Final = 5.0
_TELL_AGAIN_S: Final = 30.0


class RecordWait:
    """The time since a consumer last had records. Only the polls count: what records take to run
    does not."""

    def __init__(
        self,
        settings: Mapping[str, str],
        consumer: Consumer[Any, Any],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        """`settings` are the consumer's; `ends` are the offsets before which records must come."""
        limit = default_api_timeout_ms
        self._limit_s = int(settings.get(limit.name, str(limit.default))) / 1000
        self._consumer = consumer
        self._ends = ends
        self.reset()

    def reset(self) -> None:
        """Begin anew: records have come."""
        self._waited_s = 0.0
        self._tell_after_s = _TELL_S

    def add(self, polled_s: float, wanted: Sequence[TopicPartition]) -> None:
        """Count a poll that had nothing. Log what is waited for if that is long; raise BrokersAway
        after `default.api.timeout.ms`."""
        self._waited_s += polled_s
        if self._waited_s > self._limit_s:
            raise BrokersAway(self._waits_for(wanted))
        if self._waited_s > self._tell_after_s:
            self._tell_after_s = self._waited_s + _TELL_AGAIN_S
            LOG.warning("streams: %s; it goes on waiting", self._waits_for(wanted))

    def _waits_for(self, wanted: Sequence[TopicPartition]) -> str:
        """Return which records do not come, and why, for the user."""
        troubles = self._consumer.troubles()
        places = [
            f"{where} at offset {self._consumer.position(where)} of {self._ends[where]}"
            for where in wanted
        ]
        why = next((troubles[where] for where in wanted if where in troubles), None)
        return (
            f"{', '.join(places)}: no record in {self._waited_s:.0f} s: "
            f"{why or 'check that the leader of the partition runs'}"
        )
