"""Commits as transactions: what others left open, what is fenced, and what queries see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from moldau.client import Admin, KafkaError, NewTopic, Producer
from moldau.config import BadSettings
from moldau.errors.codes import ErrorCode
from moldau.streams import Streams, StreamsError, dead_letter, session, tumbling
from moldau.streams.engine.task import TaskSettings
from moldau.streams.plan.plan import Plan
from moldau.streams.query.questions import Count, Fetch, Get, Question, Range
from moldau.streams.running import make_task
from moldau.streams.worker.settings import app_settings
from moldau.streams.worker.tasks import TaskState
from moldau.streams.worker.worker import Worker
from tests.streams.worker.counting import word_count
from tests.streams.worker.running import COUNTS, LINES, Cluster, has, names, restored_by

MAKE = partial(make_task, TaskSettings())
LAZY = {"commit.interval.ms": 60_000}
AT_LEAST_ONCE = {"processing.guarantee": "at_least_once"}


async def until(worker: Worker, is_so: Callable[[], bool]) -> None:
    """Look in the breaks of the worker's work."""
    async with asyncio.timeout(60):
        while not await worker._gate.ask(is_so):
            pass


def processed(worker: Worker) -> int:
    return sum(each.processed for each in worker.tasks.values())


@asynccontextmanager
async def another(cluster: Cluster, transactional_id: str) -> AsyncIterator[Producer]:
    """Another transactional producer, with its first transaction open."""
    async with Producer(
        bootstrap_servers=cluster.servers, transactional_id=transactional_id
    ) as producer:
        await producer.begin_transaction()
        yield producer


def copying(app: str, lines: str, out: str) -> Plan:
    """Lines come out as they are; those that are no numbers go to the dead letters."""
    streams = Streams(app, on_error=dead_letter(f"{out}-dead"))
    numbers = streams.stream(lines, str).map_values(int).map_values(str)
    numbers.select_key(lambda number: number).to(out)
    return streams.plan()


@pytest.mark.parametrize(("is_committed", "total"), [(True, "10"), (False, "4")])
async def test_a_restore_waits_for_a_transaction_that_is_open_below_its_end(
    is_committed: bool, total: str, cluster: Cluster, tmp_path: Path
) -> None:
    """As in KAFKA-10167, and KAFKA-20685 for what is aborted then."""
    app, lines, out = names()
    await cluster.make(lines, out)
    plan = word_count(app, lines, out)
    async with cluster.worker(plan, str(tmp_path / "old")):
        await cluster.write(lines, *LINES)
        await cluster.read(out, has(COUNTS))
    changelog = f"{app}-counts-changelog"
    async with another(cluster, f"other-{app}") as open_one:
        for where in await open_one.partitions(changelog):
            await open_one.send(changelog, b"9", key=b"a", partition=where.partition)
        await open_one.flush()
        async with cluster.worker(plan, str(tmp_path / "new")) as worker:
            await until(worker, lambda: _waits_at_the_end(worker))
            await cluster.write(lines, "a")
            end = open_one.commit_transaction if is_committed else open_one.abort_transaction
            await end()
            await cluster.read(out, has({**COUNTS, "a": total}))


def _waits_at_the_end(worker: Worker) -> bool:
    """Whether all that can be read of the changelogs is restored, and tasks still wait."""
    restoring = [each for each in worker.tasks.values() if each.state is TaskState.RESTORING]
    return bool(restoring) and all(
        0 < each.position < each.end for task in restoring for each in task.restoring.values()
    )


async def test_windows_are_restored_past_the_marker_at_the_end_of_their_changelog(
    cluster: Cluster, tmp_path: Path
) -> None:
    """As in KAFKA-20876."""
    app, lines, out = names()
    await cluster.make(lines, out)
    streams = Streams(app)
    windows = streams.stream(lines, str).group_by(lambda line: line).window(tumbling("1d"))
    windows.count(name="counts").changes().map(lambda key, n: (key.key, str(n))).to(out)
    plan = streams.plan()
    for total in ("1", "2"):
        state = str(tmp_path / total)  # the second worker has no state
        async with cluster.worker(plan, state, make_task=MAKE):
            await cluster.write(lines, "a")
            await cluster.read(out, has({"a": total}))


@pytest.mark.parametrize("is_aborted", [False, True])
async def test_a_global_table_that_ends_with_a_marker_is_complete_at_each_start(
    is_aborted: bool, cluster: Cluster, tmp_path: Path
) -> None:
    """As in KAFKA-21034."""
    app, lines, out = names()
    await cluster.make(lines, out, f"{app}-names", partitions=1)
    streams = Streams(app)
    table = streams.global_table(f"{app}-names", str, key=str, name="names")
    streams.stream(lines, str).join(
        table, lambda line, name: f"{line} {name}", key=lambda line: line.split()[0]
    ).select_key(lambda text: text).to(out)
    plan = streams.plan()
    async with another(cluster, f"{app}-other") as producer:
        await producer.send(f"{app}-names", b"Ada", key=b"a", partition=0)
        await producer.commit_transaction()
        if is_aborted:
            await producer.begin_transaction()
            await producer.send(f"{app}-names", b"Abe", key=b"a", partition=0)
            await producer.flush()
            await producer.abort_transaction()
    seen = {}
    for number in range(2):
        async with cluster.worker(plan, str(tmp_path), make_task=MAKE):
            await _write_one(cluster, lines, f"a {number}")
            seen[f"a {number} Ada"] = f"a {number} Ada"
            await cluster.read(out, has(seen))


async def _write_one(cluster: Cluster, topic: str, value: str) -> None:
    async with Producer(bootstrap_servers=cluster.servers) as producer:
        await producer.send_and_wait(topic, value.encode(), partition=0)


async def test_a_fenced_worker_begins_again_and_nothing_comes_twice(
    cluster: Cluster, tmp_path: Path
) -> None:
    app, lines, out = names()
    await cluster.make(lines, out, f"{out}-dead")
    plan = copying(app, lines, out)
    lazy = {"commit.interval.ms": 3000}
    async with cluster.worker(plan, str(tmp_path), make_task=MAKE, settings=lazy) as worker:
        await cluster.write(lines, "1", "2", "x", "y")
        await until(worker, lambda: processed(worker) >= 4)
        async with another(cluster, worker._directory.member):
            pass  # it fences the worker's producer, and aborts its transaction
        await cluster.write(lines, "3", "z")
        await cluster.read(out, has({"1": "1", "2": "2", "3": "3"}))
        async with asyncio.timeout(60):
            while len(await cluster.values(f"{out}-dead")) < 3:
                pass  # "z" is in the other partition
    assert await cluster.values(out) == ["1", "2", "3"]
    assert await cluster.values(f"{out}-dead") == ["x", "y", "z"]


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
async def test_queries_see_what_is_committed(
    guarantee: str, cluster: Cluster, tmp_path: Path
) -> None:
    app, lines, _ = names()
    await cluster.make(lines)
    streams = Streams(app)
    streams.stream(lines, str, key=str).group_by_key().count(name="counts")
    plan = streams.plan()
    settings = {**LAZY, "processing.guarantee": guarantee}

    async def write_and_count(worker: Worker) -> int:
        async with Producer(bootstrap_servers=cluster.servers) as producer:
            await producer.send_and_wait(lines, b"", key=b"k")
        await until(worker, lambda: processed(worker) == 1)
        found: int = await worker.queries.ask("counts", Count())
        return found

    for round_ in range(2):
        async with cluster.worker(plan, str(tmp_path), make_task=MAKE, settings=settings) as worker:
            seen = await write_and_count(worker)
            is_committed = guarantee == "exactly_once_v2"
            assert seen == (round_ if is_committed else max(1, round_))


async def test_every_kind_of_store_answers_as_the_driver_does(
    cluster: Cluster, tmp_path: Path
) -> None:
    rows = [("a", "1", 1_000), ("b", "2", 61_000), ("a", "3", 62_000), ("b", "4", 200_000)]
    questions: dict[str, tuple[Question, ...]] = {
        "plain": (Get("a"), Range(), Range(first="b"), Range(is_reverse=True)),
        "history": (Get("a"), Get("a", as_of=2_000), Fetch("b"), Range()),
        "windows": (Fetch("a"), Range(), Range(since=60_000)),
        "sessions": (Fetch("b"), Range()),
    }
    app, lines, out = names()
    await cluster.make(lines, out, partitions=1)
    streams = Streams(app)
    values = streams.stream(lines, str, key=str)
    values.to_table(name="plain")
    values.to_table(name="history", versioned="1h")
    values.group_by_key().window(tumbling("1m", grace="1h")).count(name="windows")
    values.group_by_key().window(session("1m", grace="1h")).count(name="sessions")
    values.to(out)
    driver = streams.test()
    async with (
        cluster.worker(streams.plan(), str(tmp_path), make_task=MAKE) as worker,
        Producer(bootstrap_servers=cluster.servers) as producer,
    ):
        seen: dict[str, str] = {}
        for key, value, time in rows:
            await producer.send(lines, value.encode(), key=key.encode(), timestamp_ms=time)
            driver.pipe(lines, value, key=key, timestamp=time)
            seen[key] = value
            await producer.flush()
            await cluster.read(out, has(seen))
            for store, asked in questions.items():
                for question in asked:
                    answer = await worker.queries.ask(store, question)
                    assert answer == driver._answer(store, question), (store, question)


async def test_too_much_that_is_not_committed_is_committed_early(
    cluster: Cluster, tmp_path: Path
) -> None:
    app, lines, out = names()
    await cluster.make(lines, out)
    streams = Streams(app)
    streams.stream(lines, str, key=str).group_by_key().count(name="counts").changes().map_values(
        str
    ).to(out)
    few = {**LAZY, "uncommitted.bytes.max": 20_000}
    expected = {f"key-{number}": "1" for number in range(1000)}
    async with cluster.worker(
        streams.plan(), str(tmp_path), make_task=MAKE, settings=few
    ) as worker:
        async with Producer(bootstrap_servers=cluster.servers) as producer:
            for key in expected:
                await producer.send(lines, b"", key=key.encode())
        await until(worker, lambda: processed(worker) == len(expected))
        await cluster.read(out, lambda found: len(found) > len(expected) // 2)
        assert all(each.uncommitted_bytes() <= 20_000 for each in worker.tasks.values())
    await cluster.read(out, has(expected))


async def test_an_app_of_at_least_once_goes_on_with_transactions_and_back(
    cluster: Cluster, tmp_path: Path
) -> None:
    app, lines, out = names()
    await cluster.make(lines, out)
    plan = word_count(app, lines, out)
    counts = dict(COUNTS)
    async with cluster.worker(plan, str(tmp_path), settings=AT_LEAST_ONCE):
        await cluster.write(lines, *LINES)
        await cluster.read(out, has(counts))
    for settings in ({}, AT_LEAST_ONCE, {}):
        counts = {key: str(int(count) + 1) for key, count in counts.items()}
        async with cluster.worker(plan, str(tmp_path), settings=settings) as worker:
            await cluster.write(lines, "a b c d")
            await cluster.read(out, has(counts))
            assert not restored_by(worker)


async def test_a_record_that_no_topic_takes_fails_instead_of_beginning_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    app, lines, out = names()
    await cluster.make(lines)
    async with Admin(bootstrap_servers=cluster.servers) as admin:
        await admin.create_topic(NewTopic(out, 2, 1, {"max.message.bytes": "80"}))
    streams = Streams(app)
    streams.stream(lines, str).map_values(lambda line: line * 1000).to(out)

    async def run_until_it_ends() -> None:
        async with cluster.worker(streams.plan(), str(tmp_path), make_task=MAKE):
            await cluster.write(lines, "x")
            await asyncio.wait([cluster.ended])

    with pytest.raises(KafkaError) as caught:
        await run_until_it_ends()
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"consumer.isolation.level": "read_uncommitted"}, "isolation.level"),
        ({"isolation.level": "read_uncommitted"}, "isolation.level"),
        ({"producer.transactional.id": "mine"}, "transactional.id"),
        ({"processing.guarantee": "exactly_once"}, "processing.guarantee"),
        (
            {"commit.interval.ms": 5000, "producer.transaction.timeout.ms": 5000},
            "commit.interval.ms",
        ),
    ],
)
def test_settings_against_transactions_are_refused(given: dict[str, object], named: str) -> None:
    with pytest.raises(BadSettings, match=named):
        app_settings(given)


def test_the_commit_interval_follows_the_guarantee() -> None:
    assert app_settings({}).commit_interval_ms == 100
    assert app_settings(AT_LEAST_ONCE).commit_interval_ms == 1000
    slow = app_settings({"commit.interval.ms": 30_000})
    assert (slow.commit_interval_ms, slow.transaction_timeout_ms) == (30_000, 90_000)


def test_the_guarantee_of_an_app_is_one_of_two() -> None:
    assert Streams("app").guarantee == "exactly_once_v2"
    assert Streams("app", processing="at_least_once").guarantee == "at_least_once"
    with pytest.raises(StreamsError, match="processing='twice'"):
        Streams("app", processing="twice")  # type: ignore[arg-type]
