"""A group that has lost the offsets of some inputs, or partitions, does not count records twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from moldau.client import Admin, Producer, TopicPartition
from moldau.streams import Streams
from moldau.streams.plan.plan import Plan
from moldau.streams.problems import StateError
from moldau.streams.running import make_task, task_settings
from moldau.streams.worker.settings import app_settings
from tests.streams.worker.running import Cluster, has, names

ALO = {"processing.guarantee": "at_least_once"}
NEVER = {"no such key": "1"}


def counted(app: str, out: str, *inputs: str, **options: Any) -> Plan:
    """Counts the keys of all inputs, without a repartition."""
    streams = Streams(app)
    first, *others = (streams.stream(each, str, key=str) for each in inputs)
    for each in others:
        first = first.merge(each)
    first.group_by_key().count(name="counts", **options).changes().map_values(str).to(out)
    return streams.plan()


class CountedInputs:
    """An app that has read a key from both partitions of its inputs, and was stopped."""

    def __init__(self, cluster: Cluster, state: Path, inputs: int = 1, **options: Any) -> None:
        self.cluster, self.state = cluster, state
        self.app, lines, self.out = names()
        self.inputs = [f"{lines}-{each}" for each in range(inputs)]
        self.plan = counted(self.app, self.out, *self.inputs, **options)

    async def run(
        self, counts: dict[str, str], settings: Mapping[str, object] | None = None
    ) -> None:
        """Run it until it has these counts. Raises what ends it."""
        given = app_settings({"bootstrap.servers": self.cluster.servers})
        make = task_settings(self.plan, given)
        async with self.cluster.worker(
            self.plan,
            str(self.state),
            make_task=lambda *each: make_task(make, *each),
            settings=settings,
        ):
            found: list[asyncio.Future[Any]] = [
                asyncio.ensure_future(self.cluster.read(self.out, has(counts))),
                self.cluster.ended,
            ]
            done, _ = await asyncio.wait(found, return_when=asyncio.FIRST_COMPLETED)
            if found[0] not in done:
                found[0].cancel()
                await asyncio.wait(found[:1])
                assert found[0].exception() is not None
            for each in done:
                each.result()

    async def write(self, *inputs: str) -> None:
        """Write a record with its own key to each partition of these inputs."""
        async with Producer(
            bootstrap_servers=self.cluster.servers, runtime=self.cluster.runtime
        ) as producer:
            for topic in inputs:
                for at in range(2):
                    await producer.send(topic, b"x", key=b"ab"[at : at + 1], partition=at)

    async def begin(self) -> None:
        await self.cluster.make(*self.inputs, self.out)
        await self.write(*self.inputs)
        await self.run(dict.fromkeys("ab", str(len(self.inputs))))

    async def forget(self, parts: Iterable[tuple[str, int]]) -> None:
        """Delete offsets of the group."""
        async with Admin(
            bootstrap_servers=self.cluster.servers, runtime=self.cluster.runtime
        ) as admin:
            done = await admin.delete_group_offsets(
                self.app, [TopicPartition(*each) for each in parts]
            )
            assert set(done.values()) == {None}


def lines_about_offsets(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    return [each for each in found if "has rows and its group has" in each]


async def test_one_of_two_inputs_without_offsets_is_refused(
    cluster: Cluster, tmp_path: Path
) -> None:
    app = CountedInputs(cluster, tmp_path, inputs=2)
    await app.begin()
    await app.forget([(app.inputs[1], 0)])
    with pytest.raises(StateError) as refused:
        await app.run(NEVER)
    assert f"its group has no offsets of {app.inputs[1]}-0: they were deleted" in str(refused.value)
    app.state = tmp_path / "empty"
    with pytest.raises(StateError):
        await app.run(NEVER)


async def test_one_of_two_partitions_without_offsets_is_refused(
    cluster: Cluster, tmp_path: Path
) -> None:
    app = CountedInputs(cluster, tmp_path)
    await app.begin()
    await app.forget([(app.inputs[0], 1)])
    with pytest.raises(StateError) as refused:
        await app.run(NEVER)
    assert f"its group has no offsets of {app.inputs[0]}-1: they were deleted" in str(refused.value)


async def test_rows_without_a_changelog_are_refused_where_they_are(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = CountedInputs(cluster, tmp_path, logged=False)
    await app.begin()
    await app.run(dict.fromkeys("ab", "1"))
    await app.forget([(app.inputs[0], 1)])
    with pytest.raises(StateError) as refused:
        await app.run(NEVER)
    assert f"its group has no offsets of {app.inputs[0]}-1: they were deleted" in str(refused.value)
    assert "reset on each machine with rows of it lets" in str(refused.value)
    await app.run({"a": "1", "b": "2"}, ALO)
    assert len(lines_about_offsets(caplog)) == 1

    await app.forget([(app.inputs[0], 1)])
    app.state = tmp_path / "empty"
    for _ in range(2):
        await app.write(app.inputs[0])
    await app.run({"a": "2", "b": "3"})
    assert len(lines_about_offsets(caplog)) == 1, "no rows, so none is counted twice"


async def test_rows_without_a_changelog_of_an_input_that_was_created_anew_are_told(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = CountedInputs(cluster, tmp_path / "rows", logged=False)
    await app.begin()
    await cluster.replace(app.inputs[0])
    for _ in range(2):
        await app.write(app.inputs[0])
    app.state = tmp_path / "empty"  # a start there does not see the rows of before
    await app.run(dict.fromkeys("ab", "2"))
    await app.forget([(app.inputs[0], at) for at in (0, 1)])
    app.state = tmp_path / "rows"
    await app.run(dict.fromkeys("ab", "3"))
    (said,) = lines_about_offsets(caplog)
    assert "if they come of records that are there now" in said


async def test_at_least_once_counts_twice_and_says_so_once(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = CountedInputs(cluster, tmp_path)
    await app.begin()
    await app.forget([(app.inputs[0], at) for at in (0, 1)])
    await app.run({"a": "2", "b": "2"}, ALO)
    (said,) = lines_about_offsets(caplog)
    assert "are processed twice: moldau streams reset" in said


async def test_an_input_that_was_never_read_is_read_from_its_beginning(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = CountedInputs(cluster, tmp_path, inputs=2)
    await cluster.make(*app.inputs, app.out)
    await app.write(app.inputs[0])
    await app.run({"a": "1", "b": "1"})
    await app.write(app.inputs[1])
    await app.run({"a": "2", "b": "2"})
    assert lines_about_offsets(caplog) == []


@pytest.mark.parametrize("inputs", [1, 2])
async def test_an_input_that_was_created_anew_is_read_from_its_beginning(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture, inputs: int
) -> None:
    app = CountedInputs(cluster, tmp_path, inputs)
    await app.begin()
    await cluster.replace(app.inputs[-1])
    async with Admin(bootstrap_servers=cluster.servers, runtime=cluster.runtime) as admin:
        known = await admin.group_offsets(app.app)
    left = [(each.topic, each.partition) for each in known if each.topic == app.inputs[-1]]
    if left:
        await app.forget(left)
    await app.write(app.inputs[-1])
    await app.run(dict.fromkeys("ab", str(inputs + 1)))
    said = lines_about_offsets(caplog)
    assert len(said) == (1 if inputs == 1 else 0), "rows without any offset are told"
    assert all("if they come of records that are there now" in each for each in said)


async def test_what_was_unclear_once_is_certain_when_all_has_offsets_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    app = CountedInputs(cluster, tmp_path)
    await app.begin()
    await cluster.replace(app.inputs[0])
    await app.write(app.inputs[0])
    await app.run({"a": "2", "b": "2"})
    await app.write(app.inputs[0])
    await app.run({"a": "3", "b": "3"})
    await app.forget([(app.inputs[0], 0)])
    with pytest.raises(StateError):
        await app.run(NEVER)
