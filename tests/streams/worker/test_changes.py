"""An app that is not what it was, and topics that are not there: one line, at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moldau.client import Admin, NewTopic, TopicPartition
from moldau.runtime import Runtime
from moldau.streams import Streams, dead_letter
from moldau.streams.plan.plan import Plan
from moldau.streams.problems import (
    InputDeleted,
    MissingTopics,
    StreamsError,
    TopologyChanged,
    TopologyError,
)
from moldau.streams.running import make_task, task_settings
from moldau.streams.worker import committer, decisions
from moldau.streams.worker import start as starting
from moldau.streams.worker.door import Door
from moldau.streams.worker.reports import Reports
from moldau.streams.worker.settings import app_settings
from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.running import Cluster


@pytest.fixture(scope="module")
def strict_broker() -> Iterator[SyncEmbeddedBroker]:
    """One that creates no topics by itself."""
    with SyncEmbeddedBroker({"auto.create.topics.enable": False}) as broker:
        yield broker


@pytest.fixture
def cluster(strict_broker: SyncEmbeddedBroker, runtime: Runtime) -> Cluster:
    return Cluster(strict_broker.bootstrap_servers, runtime)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that creates no topics needs no time for it, and one that has no input gets none."""
    monkeypatch.setattr(starting, "_OUTPUT_WAIT_S", 0.2)
    monkeypatch.setattr(decisions, "GONE_S", 0.5)


def counted(app: str, store: str = "counts", topic: str = "lines", out: str = "out") -> Plan:
    streams = Streams(app)
    grouped = streams.stream(f"{app}-{topic}", str).group_by(lambda line: line)
    grouped.count(name=store).changes().map_values(str).to(f"{app}-{out}")
    return streams.plan()


async def counts(cluster: Cluster, plan: Plan, state: Path, value: str, **settings: object) -> None:
    """Run the app until it has counted `value` once more."""
    given = app_settings({"bootstrap.servers": cluster.servers})
    make = task_settings(plan, given)
    async with cluster.worker(
        plan,
        str(state),
        make_task=lambda *arguments: make_task(make, *arguments),
        settings={name.replace("_", "."): value for name, value in settings.items()},
    ):
        name = plan.app
        await cluster.write(f"{name}-lines", value)
        reads = asyncio.ensure_future(cluster.read(f"{name}-out", lambda found: value in found))
        both: list[asyncio.Future[Any]] = [reads, cluster.ended]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not reads.done():
            reads.cancel()
            await asyncio.gather(reads, return_exceptions=True)
            cluster.ended.result()
        reads.result()


async def refused(work: Coroutine[Any, Any, None], error: type[StreamsError]) -> str:
    with pytest.raises(error) as found:
        await work
    return str(found.value)


async def test_a_renamed_store_is_noticed(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.make("renamed-lines", "renamed-out")
    await counts(cluster, counted("renamed"), tmp_path, "a")
    await counts(cluster, counted("renamed"), tmp_path, "b")
    other = counted("renamed", "totals")

    text = await refused(counts(cluster, other, tmp_path, "c"), TopologyChanged)

    assert "gone: store counts, repartition topic renamed-counts-repartition" in text
    assert "new: store totals" in text
    assert "--accept-changes" in text
    async with Admin(bootstrap_servers=cluster.servers) as admin:
        made = {topic.name for topic in await admin.list_topics()}
    assert "renamed-totals-changelog" not in made, "nothing is made for a refused app"
    await counts(cluster, other, tmp_path, "c", accept_topology_changes=True)
    await counts(cluster, other, tmp_path, "d")


async def test_another_app_of_the_same_name_is_noticed(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.make("twice-lines", "twice-orders", "twice-out")
    await counts(cluster, counted("twice"), tmp_path / "one", "a")
    other = Streams("twice")
    other.stream("twice-orders", str).to("twice-out")

    text = await refused(counts(cluster, other.plan(), tmp_path / "two", "b"), TopologyChanged)

    assert "gone: input twice-lines, store counts" in text
    assert "new: input twice-orders" in text


async def test_what_is_only_new_is_no_change(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.make("grown-lines", "grown-out")
    await counts(cluster, counted("grown"), tmp_path, "a")
    grown = Streams("grown")
    grouped = grown.stream("grown-lines", str).group_by(lambda line: line)
    grouped.count(name="counts").changes().map_values(str).to("grown-out")
    grouped.reduce(max, name="largest")

    await counts(cluster, grown.plan(), tmp_path, "b")
    # In a rolling upgrade an old worker starts again; so it does when the upgrade is given up.
    await counts(cluster, counted("grown"), tmp_path, "c")
    await counts(cluster, grown.plan(), tmp_path, "d")

    other = counted("grown", "totals")
    text = await refused(counts(cluster, other, tmp_path, "e"), TopologyChanged)
    assert "gone: store counts, store largest" in text, "the newest one is still kept"


async def test_a_topic_that_cannot_keep_the_topology_only_warns(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.make("full-lines", "full-out")
    async with Admin(bootstrap_servers=cluster.servers) as admin:
        kept = NewTopic("full-moldau-topology", 1, 1, {"max.message.bytes": "80"})
        await admin.create_topic(kept)
    await counts(cluster, counted("full"), tmp_path, "a")
    assert "topic full-moldau-topology cannot be used: MESSAGE_TOO_LARGE" in caplog.text


async def test_a_stop_ends_the_reading_of_the_kept_topology(cluster: Cluster) -> None:
    await cluster.make("halted-moldau-topology", partitions=1)
    await cluster.write("halted-moldau-topology", "before")
    await cluster.write("halted-moldau-topology", "now")
    given = app_settings({"bootstrap.servers": cluster.servers})
    door = Door(given, "halted", "halted-0", cluster.runtime)
    where = TopicPartition("halted-moldau-topology", 0)
    await door.start()
    try:
        assert await door.last_values(where, lambda: True) is None
        assert await door.last_values(where, lambda: False) == {None: b"now"}
    finally:
        await door.aclose()


async def test_a_missing_output_is_told_at_once(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.make("mute-lines")

    text = await refused(counts(cluster, counted("mute"), tmp_path, "a"), MissingTopics)

    assert text == "app=mute: output topic mute-out does not exist; create it first"
    assert "output topic mute-out does not exist" in caplog.text


@pytest.mark.parametrize("is_of_a_step", [True, False])
async def test_a_missing_topic_of_dead_letters_is_told_before_the_first_one(
    cluster: Cluster, tmp_path: Path, is_of_a_step: bool
) -> None:
    name = f"buried-{is_of_a_step}"
    policy = dead_letter(f"{name}-dead")
    streams = Streams(name) if is_of_a_step else Streams(name, on_error=policy)
    lines = streams.stream(f"{name}-lines", str)
    lines.map_values(str.upper, on_error=policy if is_of_a_step else None).to(f"{name}-out")
    await cluster.make(f"{name}-lines")
    await cluster.make(f"{name}-out")

    text = await refused(counts(cluster, streams.plan(), tmp_path, "a"), MissingTopics)

    assert text == f"app={name}: output topic {name}-dead does not exist; create it first"


async def test_a_broker_may_create_outputs_by_itself(
    moldau_broker: SyncEmbeddedBroker, runtime: Runtime, tmp_path: Path
) -> None:
    cluster = Cluster(moldau_broker.bootstrap_servers, runtime)
    await cluster.make("made-lines")
    await counts(cluster, counted("made"), tmp_path, "a")


async def test_a_deleted_input_ends_the_app(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.make("cut-lines", "cut-out")
    settings = {"consumer.metadata.max.age.ms": 200}
    plan = counted("cut")
    given = app_settings({"bootstrap.servers": cluster.servers})
    make = task_settings(plan, given)

    async def deleted() -> None:
        async with cluster.worker(
            plan,
            str(tmp_path),
            make_task=lambda *arguments: make_task(make, *arguments),
            settings=settings,
        ):
            await cluster.write("cut-lines", "a")
            await cluster.read("cut-out", lambda found: found == {"a": "1"})
            async with Admin(bootstrap_servers=cluster.servers) as admin:
                await admin.delete_topic("cut-lines")
            async with asyncio.timeout(60):
                await asyncio.wait([cluster.ended])
            cluster.ended.result()

    text = await refused(deleted(), InputDeleted)
    assert text.startswith("app=cut: input topic cut-lines was deleted while the app ran")


async def test_a_missing_topic_that_a_record_names_is_told(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "QUIET_S", 0.05)
    streams = Streams("sorted")
    lines = streams.stream("sorted-lines", str).map(lambda _, line: (line, line), key=str, type=str)
    lines.to(lambda line: f"sorted-{line}")
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(committer.LOG, "warning", lambda *words: told.set_result(str(words)))
    await cluster.make("sorted-lines")
    plan = streams.plan()
    make = task_settings(plan, app_settings({"bootstrap.servers": cluster.servers}))
    async with cluster.worker(
        plan, str(tmp_path), make_task=lambda *arguments: make_task(make, *arguments)
    ):
        await cluster.write("sorted-lines", "out")
        assert "sorted-out" in await asyncio.wait_for(told, 30)
        await cluster.make("sorted-out")
        await cluster.read("sorted-out", lambda found: "out" in found)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("count", "counts-changelog has 2 partitions and the app now needs 3"),
        ("join", "now has more partitions than grown-join-rows"),
    ],
)
async def test_an_input_that_has_outgrown_what_it_meets_by_key_ends_the_worker_at_once(
    kind: str,
    told: str,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = f"grown-{kind}"
    lines, rows, out = (f"{app}-{each}" for each in ("lines", "rows", "out"))
    await cluster.make(lines, rows, out)
    streams = Streams(app)
    stream = streams.stream(lines, str, key=str)
    if kind == "count":
        stream.group_by_key().count(name="counts").changes().map_values(str).to(out)
    else:
        stream.join(streams.table(rows, str, key=str), lambda left, _: left).to(out)
    plan = streams.plan()
    make = partial(make_task, task_settings(plan, app_settings({"bootstrap.servers": ""})))
    begun = asyncio.Event()
    monkeypatch.setattr(Reports, "assigned", lambda *_: begun.set())
    settings = {"consumer.metadata.max.age.ms": 100}

    async def grow() -> None:
        async with cluster.worker(plan, str(tmp_path), make_task=make, settings=settings):
            await begun.wait()
            async with Admin(bootstrap_servers=cluster.servers, runtime=cluster.runtime) as it:
                await it.create_partitions(lines, 3)
            await asyncio.wait([cluster.ended])

    with pytest.raises(TopologyError, match=told):
        await asyncio.wait_for(grow(), 60)
