"""The topic with an app's topology and versions, on brokers that do not do what is asked."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.client import KafkaError, TopicPartition
from moldau.errors.codes import ErrorCode
from moldau.streams import Streams
from moldau.streams.plan.layout import Layout, assumed_layout
from moldau.streams.plan.store_versions import StoreVersion, version_key
from moldau.streams.plan.topology import KEY
from moldau.streams.plan.upgrade import kept_topology
from moldau.streams.problems import StateError
from moldau.streams.worker.kept import KeptTopology
from moldau.streams.worker.reports import Reports


class FakeDoor:
    """A topic as a list of records; `failures` come before its answers."""

    def __init__(self, *failures: Exception, is_atomic: bool = True) -> None:
        self.failures = list(failures)
        self.log: list[tuple[bytes, bytes]] | None = None
        self.unwritable: Exception | None = None
        self.committer = SimpleNamespace(is_atomic=is_atomic, keep=self._keep)

    async def topics(self, names: Iterable[str]) -> dict[str, Any]:
        if self.failures:
            raise self.failures.pop(0)
        return {} if self.log is None else dict.fromkeys(names)

    async def make(self, missing: Any) -> None:
        self.log = []

    async def ends(self, parts: Iterable[TopicPartition]) -> Any:
        return {where: (0, len(self.log or [])) for where in parts}

    async def last_values(self, where: TopicPartition, is_stopping: Any) -> Any:
        return dict(self.log or [])

    async def _keep(self, topic: str, key: bytes, value: bytes) -> None:
        if self.unwritable is not None:
            raise self.unwritable
        assert self.log is not None
        self.log.append((key, value))

    @property
    def end(self) -> int:
        return len(self.log or [])


def counting() -> Layout:
    app = Streams("kept")
    app.stream("lines", str, key=str).group_by_key().count(name="counts")
    return assumed_layout(app.plan(), {})


def kept_by(door: FakeDoor) -> KeptTopology:
    given: Any = door
    return KeptTopology(counting().plan, given, Reports(), lambda: False)


SECOND = version_key("counts", 0), StoreVersion(2).encoded()


@pytest.mark.parametrize(
    "failure",
    [
        TimeoutError(),
        KafkaError(ErrorCode.LEADER_NOT_AVAILABLE),
        KafkaError(ErrorCode.BROKER_NOT_AVAILABLE),
    ],
    ids=["late", "away", "all away"],
)
async def test_a_topic_that_does_not_answer_is_waited_for(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    door = FakeDoor(failure)
    door.log = [(KEY, kept_topology(counting().plan).encoded()), SECOND]
    kept = kept_by(door)
    assert await kept.read() is not None
    assert kept.sources()
    assert await kept.versions(door.end) == {("counts", 0): StoreVersion(2)}
    assert "waiting for topic kept-moldau-topology" in caplog.text


async def test_a_topic_that_may_not_be_read_is_done_without() -> None:
    kept = kept_by(FakeDoor(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    assert await kept.read() is None
    assert not kept.sources()


async def test_a_topic_that_cannot_be_read_is_an_error() -> None:
    kept = kept_by(FakeDoor(KafkaError(ErrorCode.UNSUPPORTED_VERSION)))
    with pytest.raises(StateError, match="topic kept-moldau-topology cannot be read"):
        await kept.read()


@pytest.mark.parametrize("code", ["REQUEST_TIMED_OUT", "TOPIC_AUTHORIZATION_FAILED"])
async def test_versions_are_read_from_a_topic_that_cannot_be_written(code: str) -> None:
    door = FakeDoor()
    door.log = [SECOND]
    door.unwritable = KafkaError(ErrorCode[code])
    kept, layout = kept_by(door), counting()
    assert await kept.read() is None
    await kept.write(layout, kept_topology(layout.plan))
    assert kept.sources()
    assert await kept.versions(door.end) == {("counts", 0): StoreVersion(2)}


async def test_it_must_be_known_whether_the_topic_is_there() -> None:
    door = FakeDoor()
    kept, layout = kept_by(door), counting()
    assert await kept.read() is None
    door.failures.append(TimeoutError())
    with pytest.raises(StateError, match="start again"):
        await kept.write(layout, kept_topology(layout.plan))


async def test_a_version_that_is_noted_without_a_transaction_is_read() -> None:
    door = FakeDoor(is_atomic=False)
    kept, layout = kept_by(door), counting()
    assert await kept.read() is None
    await kept.write(layout, kept_topology(layout.plan))
    assert await kept.versions(door.end) == {}
    assert door.log is not None
    door.log.append(SECOND)  # of another worker
    assert await kept.versions(door.end) == {("counts", 0): StoreVersion(2)}
