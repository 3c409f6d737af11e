"""Values of a store get another form before records run: at once, once, and also after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moldau.client import Admin
from moldau.streams import Context, Record, StateStore, Streams, tumbling
from moldau.streams.engine.task import TaskSettings
from moldau.streams.plan.plan import Plan
from moldau.streams.problems import StateError
from moldau.streams.rocks import StoreCorrupted
from moldau.streams.running import make_task
from moldau.streams.state import migrating
from moldau.streams.worker.committer import CommitReverted
from moldau.streams.worker.exactly_once import ExactlyOnce
from moldau.streams.worker.kept import KeptTopology
from moldau.streams.worker.worker import Worker
from tests.streams.worker.running import Cluster, has, names

MAKE = partial(make_task, TaskSettings())


def into_dict(total: int) -> dict[str, int]:
    return {"total": total, "seen": 0}


def into_dict_of_list(totals: list[int]) -> dict[str, int]:
    return {"total": totals[0], "seen": 0}


def add_first(so_far: int, line: str) -> int:
    return so_far + 1


def add_second(so_far: dict[str, int], line: str) -> dict[str, int]:
    return {"total": so_far["total"] + 1, "seen": so_far["seen"] + 1}


def first(name: str, lines: str, out: str) -> Plan:
    app = Streams(name)
    grouped = app.stream(lines, str).group_by(lambda line: line)
    grouped.aggregate(lambda: 0, add_first, name="counts").changes().map_values(str).to(out)
    return app.plan()


def second(name: str, lines: str, out: str, **options: Any) -> Plan:
    app = Streams(name)
    grouped = app.stream(lines, str).group_by(lambda line: line)
    given = {"version": 2, "migrate": {1: into_dict}, **options}
    counts = grouped.aggregate(
        lambda: {"total": 0, "seen": 0}, add_second, name="counts", type=dict[str, int], **given
    )
    counts.changes().map_values(lambda each: f"{each['total']}/{each['seen']}", type=str).to(out)
    return app.plan()


async def counted(cluster: Cluster, plan: Plan, state: Path, *lines: str, **rows: str) -> None:
    """Run the app until the results are these."""
    async with Admin(bootstrap_servers=cluster.servers, runtime=cluster.runtime) as admin:
        there = {topic.name for topic in await admin.list_topics()}
    await cluster.make(*{f"{plan.app}-lines", f"{plan.app}-out"} - there)
    async with cluster.worker(plan, str(state), make_task=MAKE):
        await cluster.write(f"{plan.app}-lines", *lines)
        reads = asyncio.ensure_future(cluster.read(f"{plan.app}-out", has(rows)))
        both: list[asyncio.Future[Any]] = [reads, cluster.ended]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not reads.done():
            reads.cancel()
            await asyncio.gather(reads, return_exceptions=True)
            cluster.ended.result()
        reads.result()


@pytest.fixture
def app() -> tuple[str, str, str]:
    return names()


async def test_rows_are_migrated_once_here_and_on_another_machine(
    cluster: Cluster, app: tuple[str, str, str], tmp_path: Path
) -> None:
    await counted(cluster, first(*app), tmp_path / "a", "x", "y", "x", x="2", y="1")
    await counted(cluster, second(*app), tmp_path / "a", "x", x="3/1", y="1")
    await counted(cluster, second(*app), tmp_path / "a", "y", x="3/1", y="2/1")
    await counted(cluster, second(*app), tmp_path / "b", "x", "y", x="4/2", y="3/2")


async def test_rows_are_migrated_while_they_are_restored_on_another_machine(
    cluster: Cluster, app: tuple[str, str, str], tmp_path: Path
) -> None:
    await counted(cluster, first(*app), tmp_path / "a", "x", "y", "x", x="2", y="1")
    await counted(cluster, second(*app), tmp_path / "b", "x", "y", x="3/1", y="2/1")


async def test_several_versions_are_passed_in_one_go(
    cluster: Cluster, app: tuple[str, str, str], tmp_path: Path
) -> None:
    def doubled(each: dict[str, int]) -> dict[str, int]:
        return {"total": each["total"] * 2, "seen": each["seen"]}

    await counted(cluster, first(*app), tmp_path / "a", "x", "x", x="2")
    third = second(*app, version=3, migrate={1: into_dict, 2: doubled})
    await counted(cluster, third, tmp_path / "a", "x", x="5/1")


async def test_a_row_for_which_the_function_returns_none_is_deleted(
    cluster: Cluster, app: tuple[str, str, str], tmp_path: Path
) -> None:
    def only_many(total: int) -> dict[str, int] | None:
        return into_dict(total) if total > 1 else None

    await counted(cluster, first(*app), tmp_path / "a", "x", "y", "x", x="2", y="1")
    plan = second(*app, migrate={1: only_many})
    await counted(cluster, plan, tmp_path / "a", "x", "y", x="3/1", y="1/1")
    await counted(cluster, plan, tmp_path / "b", "x", "y", x="4/2", y="2/2")


class Crash(Exception):
    """The process is gone."""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("state", ["a", "b"], ids=["here", "elsewhere"])
async def test_a_migration_goes_on_after_a_crash(
    cluster: Cluster,
    app: tuple[str, str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    state: str,
) -> None:
    """It is cut short in the second of many transactions, before it commits or when it has."""
    rows = {f"k{at}": "1" for at in range(12)}
    await counted(cluster, first(*app), tmp_path / "a", *rows, **rows)
    monkeypatch.setattr(migrating, "ROWS", 2)
    notes, commit = list[int](), ExactlyOnce.commit
    noted = KeptTopology.noted

    def note(kept: KeptTopology, store: str, partition: int, at: Any, now_ms: int) -> Any:
        notes.append(at.to or 0)
        return noted(kept, store, partition, at, now_ms)

    async def crash(committer: ExactlyOnce, offsets: Mapping[Any, Any]) -> None:
        if len(notes) == 2 and moment == "before":
            raise Crash
        await commit(committer, offsets)
        if len(notes) == 2:
            raise Crash

    with monkeypatch.context() as until:
        until.setattr(KeptTopology, "noted", note)
        until.setattr(ExactlyOnce, "commit", crash)
        with pytest.raises(Crash):
            await counted(cluster, second(*app), tmp_path / "a", **dict.fromkeys(rows, "never"))
    assert notes[0] == 2, "the first transaction has left the pass unfinished"
    again = dict.fromkeys(rows, "2/1")
    await counted(cluster, second(*app), tmp_path / state, *rows, **again)


async def test_a_reverted_transaction_of_a_migration_is_done_again(
    cluster: Cluster,
    app: tuple[str, str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await counted(cluster, first(*app), tmp_path / "a", "x", "y", "x", x="2", y="1")
    commit, failed = ExactlyOnce.commit, list[bool]()

    async def fail_once(committer: ExactlyOnce, offsets: Mapping[Any, Any]) -> None:
        if not failed:
            failed.append(True)
            raise CommitReverted("planted")
        await commit(committer, offsets)

    monkeypatch.setattr(ExactlyOnce, "commit", fail_once)
    await counted(cluster, second(*app), tmp_path / "a", "x", "y", x="3/1", y="2/1")
    assert failed


async def test_a_store_that_a_migration_finds_damaged_is_restored_and_migrated(
    cluster: Cluster,
    app: tuple[str, str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await counted(cluster, first(*app), tmp_path / "a", "x", "y", "x", x="2", y="1")
    migrated, failed = migrating.migrated, list[bool]()

    def damaged(*given: Any) -> migrating.MigratedRows:
        if not failed:
            failed.append(True)
            raise StoreCorrupted("the state is damaged", path="of the task")
        return migrated(*given)

    monkeypatch.setattr("moldau.streams.worker.migrations.migrated", damaged)
    await counted(cluster, second(*app), tmp_path / "a", "x", "y", x="3/1", y="2/1")
    (line,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert "the state is damaged" in line
    assert "the stores are restored from their changelogs" in line


async def test_a_worker_that_stops_while_it_reads_the_versions_changes_no_rows(
    cluster: Cluster,
    app: tuple[str, str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await counted(cluster, first(*app), tmp_path / "a", "x", "y", "x", x="2", y="1")
    await counted(cluster, second(*app), tmp_path / "a", "x", x="3/1", y="1")
    versions, stopping = KeptTopology.versions, list[Worker]()

    async def stopped(kept: KeptTopology, end: int) -> Any:
        stopping[0]._is_stopping = True
        kept._end = -1  # there is something new to read
        found = await versions(kept, end)
        assert found is None, "unknown is not: no store has another version"
        return found

    with monkeypatch.context() as until:
        until.setattr(KeptTopology, "versions", stopped)
        async with cluster.worker(second(*app), str(tmp_path / "a"), make_task=MAKE) as worker:
            stopping.append(worker)
            async with asyncio.timeout(60):
                await asyncio.wait([cluster.ended])
            assert not cluster.ended.exception()
    await counted(cluster, second(*app), tmp_path / "b", "x", "y", x="4/2", y="2/1")


async def refused(cluster: Cluster, plan: Plan, state: Path) -> str:
    with pytest.raises(StateError) as found:
        await counted(cluster, plan, state, "x", never="")
    return str(found.value)


async def test_an_earlier_app_does_not_read_newer_rows(
    cluster: Cluster, app: tuple[str, str, str], tmp_path: Path
) -> None:
    await counted(cluster, first(*app), tmp_path / "a", "x", x="1")
    await counted(cluster, second(*app), tmp_path / "a", "x", x="2/1")
    for state in ("a", "b"):
        text = await refused(cluster, first(*app), tmp_path / state)
        assert "store=counts: its rows have version 2, and this app declares version 1" in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"migrate": {}}, "migrate[1] is missing, which makes version 2 of 1"),
        ({"migrate": {1: lambda value: value["total"]}}, "TypeError"),
        ({"migrate": {1: into_dict_of_list}}, "in migrate[1]: b'1'"),
    ],
    ids=["missing", "failing", "another type"],
)
async def test_what_does_not_migrate_changes_nothing(
    cluster: Cluster,
    app: tuple[str, str, str],
    tmp_path: Path,
    options: dict[str, Any],
    said: str,
) -> None:
    await counted(cluster, first(*app), tmp_path / "a", "x", x="1")
    assert said in await refused(cluster, second(*app, **options), tmp_path / "a")
    await counted(cluster, first(*app), tmp_path / "a", "x", x="3")


async def test_without_exactly_once_rows_are_not_migrated(
    cluster: Cluster, app: tuple[str, str, str], tmp_path: Path
) -> None:
    cluster.settings["processing.guarantee"] = "at_least_once"
    await counted(cluster, first(*app), tmp_path / "a", "x", x="1")
    text = await refused(cluster, second(*app), tmp_path / "a")
    assert "start the app once with processing.guarantee=exactly_once_v2" in text


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
async def test_a_store_that_begins_with_a_later_version_is_not_migrated(
    cluster: Cluster, app: tuple[str, str, str], tmp_path: Path, guarantee: str
) -> None:
    cluster.settings["processing.guarantee"] = guarantee
    await counted(cluster, second(*app), tmp_path / "a", "x", x="1/1")
    await counted(cluster, second(*app), tmp_path / "b", "x", x="2/2")


def windowed(name: str, lines: str, out: str, options: Mapping[str, Any], kind: Any) -> Plan:
    app = Streams(name)
    grouped = app.stream(lines, str).group_by(lambda line: line).window(tumbling("1d"))
    counts = grouped.aggregate(
        kind, lambda so_far, _: into(so_far), name="counts", type=kind, **options
    )
    counts.changes().map(lambda key, each: (key.key, str(each)), key=str, type=str).to(out)
    return app.plan()


def into(so_far: Any) -> Any:
    return so_far + 1 if isinstance(so_far, int) else so_far + "|"


def as_bars(count: int) -> str:
    return "|" * count


async def test_the_values_of_windows_are_migrated(
    cluster: Cluster, app: tuple[str, str, str], tmp_path: Path
) -> None:
    await counted(cluster, windowed(*app, {}, int), tmp_path / "a", "x", "x", x="2")
    plan = windowed(*app, {"version": 2, "migrate": {1: as_bars}}, str)
    await counted(cluster, plan, tmp_path / "a", "x", x="|||")
    await counted(cluster, plan, tmp_path / "b", "x", x="||||")


async def test_the_values_of_a_store_of_an_own_operator_are_migrated(
    cluster: Cluster, app: tuple[str, str, str], tmp_path: Path
) -> None:
    name, lines, out = app

    def plan(store: StateStore, grow: Callable[[Any], Any]) -> Plan:
        streams = Streams(name)

        class Seen:
            def __init__(self, context: Context) -> None:
                self.context, self.rows = context, context.store("seen")

            def process(self, record: Record) -> None:
                value = self.rows[record.value] = grow(self.rows.get(record.value))
                self.context.forward(Record(record.value, str(value), record.timestamp))

        words = streams.stream(lines, str)
        seen = words.process(Seen, name="words", stores=[store], key=str, type=str)
        seen.to(out)
        return streams.plan()

    old = plan(StateStore("seen", key=str, value=int), lambda value: (value or 0) + 1)
    later = StateStore("seen", key=str, value=str, version=2, migrate={1: as_bars})
    new = plan(later, lambda value: (value or "") + "|")
    await counted(cluster, old, tmp_path / "a", "x", x="1")
    await counted(cluster, new, tmp_path / "a", "x", x="||")
    await counted(cluster, new, tmp_path / "b", "x", x="|||")
