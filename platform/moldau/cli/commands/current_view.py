"""Waits until every living broker knows the committed metadata of the controllers.

A broker that is behind omits a topic that was created a moment ago from its answer. Before an
action that would then lose data, wait for `await_current_view`.

The controllers report how far each broker has read the metadata log, and when it last fetched. Both
together prove that it knows what was committed at the first look:
1. The log ends at T at the leader, and the leader commits all below T.
2. A fetch of the broker arrives after that. The response says that all below T is committed.
3. Another fetch arrives, from T or later. The broker has read the response.

Invariant: nothing counts that was seen under an earlier leader, or before T was committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from moldau.cli.commands.cluster_controller import described_quorum
from moldau.cli.output import write_lines
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from moldau.cli.command import Context
    from moldau.cli.commands.cluster_connection import OpenClient
    from moldau.client import Admin
    from moldau.client.admin.cluster import Quorum

LOOK_SECONDS: Final = 0.1
WITHIN_SECONDS: Final = 60.0
FETCHES: Final = 2
LATER_MS: Final = 10
"""A fetch that is this much later is a different fetch. The times are computed from two clocks."""


class MetadataLooks:
    """Successive looks at the metadata quorum, and what they prove. See the module."""

    def __init__(self) -> None:
        self._end = 0
        self._epoch = (-1, -1)
        self._fetched_ms: dict[int, int] = {}
        self._fetches: dict[int, int] = {}

    def behind(self, quorum: Quorum, brokers: Iterable[int]) -> list[int]:
        """Return the brokers that may not know yet what was committed at the first look."""
        replicas = {each.node_id: each for each in (*quorum.observers, *quorum.voters)}
        epoch = quorum.leader_id, quorum.leader_epoch
        if epoch != self._epoch:
            # A new leader does not know at first what is committed: all records below its log's end
            # may be.
            self._epoch = epoch
            self._forget()
            leader = replicas.get(quorum.leader_id)
            own_end = -1 if leader is None else leader.log_end_offset
            self._end = max(self._end, quorum.high_watermark, own_end)
        if quorum.high_watermark < self._end:
            self._forget()
            return sorted(brokers)
        found = []
        for broker in sorted(brokers):
            if broker == quorum.leader_id:
                continue
            replica = replicas.get(broker)
            if replica is None:
                found.append(broker)
                continue
            self._note(broker, replica.last_fetch_ms)
            if self._fetches[broker] < FETCHES or replica.log_end_offset < self._end:
                found.append(broker)
        return found

    def _note(self, broker: int, last_fetch_ms: int) -> None:
        before_ms = self._fetched_ms.get(broker)
        if before_ms is None:
            self._fetched_ms[broker], self._fetches[broker] = last_fetch_ms, 0
        elif last_fetch_ms >= before_ms + LATER_MS:
            self._fetched_ms[broker] = last_fetch_ms
            self._fetches[broker] += 1

    def _forget(self) -> None:
        self._fetched_ms.clear()
        self._fetches.clear()


def await_current_view(admin: OpenClient[Admin], context: Context) -> None:
    """Return when every living broker knows everything that is committed now. Raise MoldauError if
    one does not within a minute. A cluster with ZooKeeper cannot report it: warn the user and
    return."""
    from moldau.cli.shell import pause
    from moldau.errors.codes import ErrorCode, KafkaError

    looks, clock = MetadataLooks(), admin.runtime.clock
    end = clock.monotonic() + WITHIN_SECONDS
    while True:
        try:
            quorum = admin.run(described_quorum)
        except KafkaError as error:
            if error.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            line = "moldau: this cluster does not tell how far its brokers have read the metadata"
            write_lines(context.err, [f"{line}; a topic that is new may be missing"])
            return
        cluster = admin.run(lambda client: client.describe_cluster())
        behind = looks.behind(quorum, [each.node_id for each in cluster.brokers])
        if not behind:
            return
        if clock.monotonic() > end:
            raise MoldauError(
                f"broker {behind[0]} does not follow the metadata of the controllers, so what it "
                "tells may be old: look at its log, then try again"
            )
        admin.run(lambda _: pause(LOOK_SECONDS))
