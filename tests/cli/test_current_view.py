"""A broker is drained by a view of the cluster that leaves out nothing that is committed."""

from __future__ import annotations

import asyncio
import io
from argparse import Namespace
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.cli.command import Context
from moldau.cli.commands import broker_drain, current_view
from moldau.cli.commands.current_view import MetadataLooks
from moldau.client.admin.cluster import Quorum, QuorumReplica
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.plugins import installed_plugins

LEAVING = 3


def quorum(fetched_ms: int, *, epoch: int = 4, end: int = 20, committed: int = 20) -> Quorum:
    """Node 1 leads; 2 votes, 3 observes, and both have fetched at that time."""
    leader = QuorumReplica(1, 20, fetched_ms, fetched_ms)
    others = [QuorumReplica(each, end, fetched_ms, fetched_ms) for each in (2, 3)]
    return Quorum(1, epoch, committed, (leader, others[0]), (others[1],))


def test_two_fetches_prove_that_a_broker_knows_what_is_committed() -> None:
    looks = MetadataLooks()
    assert looks.behind(quorum(1000), [1, 2, 3]) == [2, 3]
    assert looks.behind(quorum(1003), [1, 2, 3]) == [2, 3], "the same fetch, by rounded times"
    assert looks.behind(quorum(1500), [1, 2, 3]) == [2, 3]
    assert looks.behind(quorum(2000), [1, 2, 3]) == []


def test_a_broker_that_has_not_read_the_log_is_behind() -> None:
    looks = MetadataLooks()
    for fetched_ms in (1000, 1500, 2000, 2500):
        assert looks.behind(quorum(fetched_ms, end=19), [1, 2]) == [2]
    assert looks.behind(quorum(3000), [1, 2]) == []


def test_a_broker_that_does_not_read_the_log_is_behind() -> None:
    looks = MetadataLooks()
    for fetched_ms in (1000, 1500, 2000, 2500):
        assert looks.behind(quorum(fetched_ms), [1, 4]) == [4]


def test_what_a_new_leader_has_not_committed_yet_counts_too() -> None:
    looks = MetadataLooks()
    for fetched_ms in (1000, 1500, 2000, 2500):
        assert looks.behind(quorum(fetched_ms, committed=-1), [2]) == [2]
    for fetched_ms in (3000, 3500):
        assert looks.behind(quorum(fetched_ms), [2]) == [2], "fetches before that do not count"
    assert looks.behind(quorum(4000), [2]) == []


def test_nothing_counts_that_an_earlier_leader_saw() -> None:
    looks = MetadataLooks()
    looks.behind(quorum(1000), [2])
    looks.behind(quorum(1500), [2])
    assert looks.behind(quorum(2000, epoch=5), [2]) == [2]
    assert looks.behind(quorum(2500, epoch=5), [2]) == [2]
    assert looks.behind(quorum(3000, epoch=5), [2]) == []


@dataclass
class LateBroker:
    """A cluster in which brokers learn of the topic `late` with their second fetch of metadata, and
    broker 3 removes the replica from its disk some looks after the move."""

    has_quorum: bool = True
    looks: int = 0
    looks_at_disk: int = 0
    replicas: dict[str, list[int]] = field(default_factory=lambda: {"late": [1, LEAVING]})
    runtime: Any = field(
        default_factory=lambda: SimpleNamespace(clock=SimpleNamespace(monotonic=lambda: 0.0))
    )

    def run(self, action: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        return asyncio.run(action(self))

    async def describe_quorum(self) -> Quorum:
        if not self.has_quorum:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        self.looks += 1
        return quorum(1000 * self.looks)

    async def describe_cluster(self, *, include_fenced: bool = False) -> Any:
        brokers = [SimpleNamespace(node_id=each, rack=None) for each in (1, 2, 3)]
        return SimpleNamespace(brokers=brokers, fenced=[])

    async def list_topics(self, *, internal: bool) -> list[Any]:
        known = self.replicas if self.looks > 2 else {}
        return [
            SimpleNamespace(name=name, partitions=[SimpleNamespace(index=0, replicas=on)])
            for name, on in known.items()
        ]

    async def alter_partition_reassignments(self, wanted: Any) -> dict[Any, None]:
        for where, replicas in wanted.items():
            self.replicas[where.topic] = list(replicas)
        return dict.fromkeys(wanted)

    async def list_partition_reassignments(self) -> dict[Any, Any]:
        return {}

    async def describe_topics(self, names: list[str]) -> dict[str, Any]:
        return {name: SimpleNamespace(name=name) for name in names}

    async def describe_log_dirs(self, brokers: list[int] | None = None) -> list[Any]:
        if brokers is None:
            return []
        self.looks_at_disk += 1
        where = SimpleNamespace(topic="late", partition=0)
        kept = [SimpleNamespace(where=where)] if self.looks_at_disk < 3 else []
        return [SimpleNamespace(replicas=kept)]


def drained(cluster: LateBroker, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    @contextmanager
    def opened(*_: object) -> Iterator[LateBroker]:
        yield cluster

    monkeypatch.setattr(current_view, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(broker_drain, "opened_admin", opened)
    out, err = io.StringIO(), io.StringIO()
    context = Context(out, err, {}, installed_plugins)
    arguments = Namespace(broker=LEAVING, to=None, throttle=None, dry_run=False)
    return broker_drain.drain(arguments, context), out.getvalue(), err.getvalue()


def test_a_topic_that_brokers_hear_of_late_leaves_too(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LateBroker()
    code, out, err = drained(cluster, monkeypatch)
    assert (code, out) == (0, "broker 3 has no replicas\n")
    assert "1 partition leaves broker 3" in err
    assert cluster.replicas == {"late": [1, 2]}
    assert cluster.looks_at_disk == 3, "until its disk has nothing of it"


def test_a_cluster_without_a_quorum_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LateBroker(has_quorum=False, looks=9)
    code, _, err = drained(cluster, monkeypatch)
    assert code == 0
    assert "does not tell how far its brokers have read the metadata" in err
    assert cluster.replicas == {"late": [1, 2]}


def test_a_broker_that_keeps_its_replicas_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LateBroker(looks_at_disk=-(10**6))
    times = iter(range(0, 10**6, 20))
    cluster.runtime.clock.monotonic = lambda: float(next(times))
    with pytest.raises(MoldauError, match="has not removed its replicas") as told:
        drained(cluster, monkeypatch)
    assert "late-0" in told.value.reason


def test_a_broker_that_does_not_follow_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LateBroker()
    times = iter(range(0, 10**6, 20))
    cluster.runtime.clock.monotonic = lambda: float(next(times))

    async def stuck() -> Quorum:
        return quorum(1000)

    monkeypatch.setattr(cluster, "describe_quorum", stuck)
    with pytest.raises(MoldauError, match="broker 2 does not follow"):
        drained(cluster, monkeypatch)
