"""The copies that a worker keeps hold all of their changelogs, whatever happens to their files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from moldau.client import Admin, Consumer, Producer, TopicPartition
from moldau.client.group.streams import TaskPosition
from moldau.streams.plan.store_versions import StoreVersion, version_key
from moldau.streams.query.gate import Gate
from moldau.streams.rocks import RocksMemory, StoreCorrupted, TaskDatabase
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.worker.committer import CommittedOffset
from moldau.streams.worker.door import Door
from moldau.streams.worker.reports import Reports
from moldau.streams.worker.settings import app_settings
from moldau.streams.worker.standbys import Standbys
from moldau.streams.worker.state_directory import StateDirectory
from moldau.streams.worker.task_maker import TaskMaker
from moldau.streams.worker.tasks import MakeTask, TaskId
from tests.streams.worker.counting import COUNTS, CountingTask, word_count
from tests.streams.worker.running import Cluster, names

COPY: Final = TaskId(1, 0)


class Copies:
    """The standbys of a worker that has no task of its own."""

    def __init__(
        self, app: str, cluster: Cluster, state: Path, make_task: MakeTask, *, is_input: bool
    ) -> None:
        """With `is_input` the input of the program is the changelog of its store."""
        plan = word_count(app)
        self.changelog = f"{app}-counts-changelog"
        if is_input:
            self.changelog = plan.programs[1].inputs[0]
            store = replace(COUNTS, source_topic=self.changelog)
            plan = replace(plan, programs=(replace(plan.programs[1], stores=(store,)),))
        given = {"bootstrap.servers": cluster.servers, "group.protocol": "streams"}
        runtime = cluster.runtime
        directory = StateDirectory.open(str(state), app, 0, runtime)
        memory = RocksMemory(1 << 20, 1 << 20)
        reports = Reports()
        maker = TaskMaker(
            make_task,
            directory,
            lambda path, stores: TaskDatabase.open(path, stores, memory, runtime.files),
            ({}, {}),
            (runtime.files, reports),
        )
        self._app, self._cluster = app, cluster
        self._directory = directory
        self.door = Door(app_settings(given), app, "copier", runtime)
        self.standbys = Standbys(
            plan,
            self.door,
            maker,
            lambda: self._topics,
            (Gate(runtime), runtime, reports),
            lambda: self.versions,
        )
        self.versions: list[TopicPartition] = []
        """Where the versions of rows are kept."""
        self.reported: list[TaskPosition] = []
        self.door.membership.report = self._report  # type: ignore[method-assign]

    def _report(self, positions: Mapping[TaskId, TaskPosition]) -> None:
        self.reported.append(positions[COPY])

    async def start(self) -> None:
        await self.door.start()
        self._topics = await self.door.topics([self.changelog])

    async def aclose(self) -> None:
        await self.standbys.close_all()
        await self.door.aclose()
        self._directory.close()

    async def read_until(self, is_enough: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not is_enough():
                await self.standbys.read()
                await asyncio.sleep(0)

    async def commit(self, offset: int) -> None:
        """Commit an offset of the changelog, as the app does."""
        async with Consumer(
            bootstrap_servers=self._cluster.servers,
            group_id=self._app,
            runtime=self._cluster.runtime,
        ) as consumer:
            consumer.assign([TopicPartition(self.changelog, 0)])
            await consumer.commit({TopicPartition(self.changelog, 0): offset})

    @property
    def rows(self) -> dict[bytes, bytes | None]:
        database = self.standbys.tasks[COPY].database
        assert database is not None
        return dict(database.backing("counts").scan(b"", None))

    @property
    def position(self) -> int:
        """The offset that the copy has come to; -1 while there is none."""
        task = self.standbys.tasks.get(COPY)
        return -1 if task is None else task.restoring[TopicPartition(self.changelog, 0)].position


@asynccontextmanager
async def copies(
    cluster: Cluster, state: Path, make_task: MakeTask = CountingTask, *, is_input: bool = False
) -> AsyncIterator[Copies]:
    app, _, _ = names()
    made = Copies(app, cluster, state, make_task, is_input=is_input)
    async with AsyncExitStack() as left:
        await cluster.make(made.changelog, partitions=1)
        left.push_async_callback(made.aclose)
        await made.start()
        yield made


async def write(cluster: Cluster, topic: str, *keys: str) -> None:
    async with Producer(bootstrap_servers=cluster.servers, runtime=cluster.runtime) as producer:
        for key in keys:
            await producer.send_and_wait(topic, b"1", key=key.encode())


async def test_a_copy_answers_only_while_its_rows_have_the_version_of_the_app(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with copies(cluster, tmp_path) as made:
        kept = f"{made.changelog}-versions"
        await cluster.make(kept, partitions=1)
        made.versions.append(TopicPartition(kept, 0))

        async def note(at: StoreVersion) -> None:
            async with Producer(
                bootstrap_servers=cluster.servers, runtime=cluster.runtime
            ) as producer:
                await producer.send_and_wait(kept, at.encoded(), key=version_key("counts", 0))

        await note(StoreVersion(2))
        await write(cluster, made.changelog, "a")
        await made.standbys.keep([COPY])
        assert not made.standbys.tasks[COPY].versions_fit, "it is not known"
        await made.read_until(lambda: made.position == 1 and made.standbys._kept.position == 1)
        assert not made.standbys.tasks[COPY].versions_fit
        await note(StoreVersion(1))
        await made.read_until(lambda: made.standbys.tasks[COPY].versions_fit)
        await note(StoreVersion(1, 2, b"a", "key-value"))
        await made.read_until(lambda: not made.standbys.tasks[COPY].versions_fit)
        await made.standbys.give_up(())
        await note(StoreVersion(1))
        await made.standbys.keep([COPY])
        await made.read_until(lambda: made.standbys.tasks[COPY].versions_fit)


async def test_a_copy_that_is_damaged_is_copied_from_the_beginning(
    cluster: Cluster, tmp_path: Path
) -> None:
    damages: list[StoreCorrupted] = []

    class Damaged(CountingTask):
        def restore(self, store: str, changes: ChangelogRecords) -> None:
            if b"c" in changes.keys and not damages:
                damages.append(StoreCorrupted("the state is damaged", path="copy"))
                raise damages[0]
            super().restore(store, changes)

    async with copies(cluster, tmp_path, Damaged) as made:
        await write(cluster, made.changelog, "a", "b")
        await made.standbys.keep([COPY])
        await made.read_until(lambda: made.position == 2)
        await write(cluster, made.changelog, "c")
        await made.read_until(lambda: made.position == 3)
        assert damages
        assert made.rows == {b"a": b"1", b"b": b"1", b"c": b"1"}


async def test_a_copy_that_stays_damaged_is_given_up_after_growing_pauses(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Damaged(CountingTask):
        def restore(self, store: str, changes: ChangelogRecords) -> None:
            raise StoreCorrupted("the state is damaged", path="copy")

    pauses: list[float] = []

    async with copies(cluster, tmp_path, Damaged) as made:
        clock = made.standbys._runtime.clock
        await write(cluster, made.changelog, "a")
        await made.standbys.keep([COPY])
        restarts = made.standbys._restarts[COPY]

        def is_given_up() -> bool:
            if restarts.due_ms is not None:
                pauses.append(restarts.due_ms - clock.monotonic_ns() // 1_000_000)
                restarts.due_ms = 0  # the pause is over
            return bool(made.standbys.given_up)

        await made.read_until(is_given_up)
        assert not made.standbys.tasks
        assert len(pauses) == 5
        assert pauses == sorted(pauses)
        await made.standbys.keep([COPY])
        assert not made.standbys.tasks, "the group has not given it anew"
        await made.standbys.give_up(())
        await made.standbys.keep([COPY])
        assert made.standbys.tasks
    (line,) = [each.getMessage() for each in caplog.records if "given up" in each.getMessage()]
    assert "standby task 1_0" in line
    assert "the state is damaged" in line


async def test_committed_offsets_are_looked_up_with_growing_pauses_without_an_answer(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with copies(cluster, tmp_path, is_input=True) as made:
        looks = 0
        found: dict[TopicPartition, CommittedOffset] | None = None

        async def committed_soon(
            partitions: Sequence[TopicPartition],
        ) -> dict[TopicPartition, CommittedOffset] | None:
            nonlocal looks
            looks += 1
            return found

        made.door.committed_soon = committed_soon  # type: ignore[method-assign]
        standbys, now = made.standbys, made.standbys._runtime.clock.monotonic()
        await standbys.keep([COPY])
        pauses = []
        for _ in range(4):
            standbys._look_at = 0.0
            await standbys.read()
            pauses.append(standbys._look_at - now)
        assert looks == 4
        assert pauses == sorted(pauses)
        assert pauses[-1] > 5.0
        found = {}
        standbys._look_at = 0.0
        await standbys.read()
        assert standbys._look_at - standbys._runtime.clock.monotonic() <= 1.0


async def test_a_copy_begins_anew_when_its_changelog_has_lost_its_next_record(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with (
        copies(cluster, tmp_path) as made,
        Admin(bootstrap_servers=cluster.servers, runtime=cluster.runtime) as admin,
    ):
        find = made.door.ends
        where = TopicPartition(made.changelog, 0)

        async def found_before_a_deletion(
            partitions: Sequence[TopicPartition],
        ) -> dict[TopicPartition, tuple[int, int]]:
            found = await find(partitions)
            await admin.delete_records({where: 3})
            return found

        made.door.ends = found_before_a_deletion  # type: ignore[method-assign]
        await write(cluster, made.changelog, "a", "b", "c", "d")
        await made.standbys.keep([COPY])
        await made.read_until(lambda: made.position == 4)
        assert made.rows == {b"d": b"1"}


async def test_a_copy_is_not_reported_as_near_before_the_end_is_known(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with copies(cluster, tmp_path) as made:
        await write(cluster, made.changelog, "a", "b", "c")
        await made.standbys.keep([COPY])
        await made.read_until(lambda: made.position == 3)
        await made.read_until(lambda: bool(made.reported))
        assert all(each.end == 3 for each in made.reported)


async def test_a_copy_of_a_table_keeps_its_rows_when_it_is_opened_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with copies(cluster, tmp_path, is_input=True) as made:
        await write(cluster, made.changelog, "a", "b", "c")
        await made.commit(2)
        await made.standbys.keep([COPY])
        await made.read_until(lambda: made.position == 2)
        await made.standbys.give_up(())
        await made.standbys.keep([COPY])
        assert made.position == 2
        assert made.rows.keys() == {b"a", b"b"}
        await made.commit(3)
        await made.read_until(lambda: made.position == 3)
        assert made.rows.keys() == {b"a", b"b", b"c"}


async def test_a_copy_of_a_table_with_nothing_to_read_is_reported(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with copies(cluster, tmp_path, is_input=True) as made:
        await made.standbys.keep([COPY])
        await made.standbys.read()
        assert made.reported == [TaskPosition(0, 0)]
