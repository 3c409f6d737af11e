"""A real broker copies its segments to a store, lets local ones go, and loses nothing."""

from __future__ import annotations

import os
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from moldau.broker.replication.quota import ReplicationQuota
from moldau.broker.server import Broker
from moldau.broker.tiered.remote_segment import DeletionState
from moldau.broker.tiered.segment_objects import SegmentAccess
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.runtime import Runtime
from tests.broker.network.virtual_pause import after
from tests.broker.server.houses import House, house
from tests.broker.server.wire import Wire
from tests.broker.tiered.stores import on_runtime
from tests.broker.tiered.tiered_house import (
    LOOK_S,
    VALUE,
    are_gapless,
    delete_topic,
    finished_ranges,
    first_file,
    is_cut,
    last_base,
    local_start,
    metadata_files,
    objects,
    read_whole,
    remote_of,
    until,
)
from tests.broker.tiered.tiered_settings import SETTINGS, TOPIC
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import TOOL_JVM

pytestmark = pytest.mark.real


async def fill(wire: Wire, topic: str = "t", count: int = 60) -> None:
    for _ in range(count):
        assert (await wire.produce(topic, [VALUE])).error_code == ErrorCode.NONE


async def configure(wire: Wire, topic: str, **configs: str) -> ErrorCode:
    resource = AlterConfigsResource(
        resource_type=2,
        resource_name=topic,
        configs=[
            AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
            for name, value in configs.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = await wire.ask(request, IncrementalAlterConfigsResponse)
    return ErrorCode(answer.responses[0].error_code)


@asynccontextmanager
async def tiered(home: House, store: object, **more: str) -> AsyncIterator[tuple[Broker, Wire]]:
    address = store if isinstance(store, str) else f"file://{store}"
    settings = {**SETTINGS, "remote_storage": address, **more}
    async with home.open(**settings) as (broker, wire):
        yield broker, wire


def test_segments_go_to_the_store_and_local_ones_go_after_that(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home, tiered(home, tmp_path) as (broker, wire):
            assert await wire.create("t", 1, **TOPIC) == ErrorCode.NONE
            await fill(wire)
            await until(lambda: is_cut(broker, "t"))
            log = broker.node.replicas.partition("t", 0).log
            assert log.log_start_offset == 0
            ranges = finished_ranges(remote_of(broker, await wire.topic_id("t")))
            assert are_gapless(ranges, last_base(broker, "t"))
            assert len(objects(tmp_path)) == 2 * len(ranges)

    on_runtime(main)


def test_readers_get_what_is_remote_only_also_after_a_restart(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home:
            async with tiered(home, tmp_path) as (broker, wire):
                await wire.create("t", 1, **TOPIC)
                await fill(wire)
                await until(lambda: is_cut(broker, "t"))
                assert await read_whole(wire, "t") == [VALUE] * 60
            async with tiered(home, tmp_path) as (broker, wire):
                assert local_start(broker, "t") > 0
                assert await read_whole(wire, "t") == [VALUE] * 60

    on_runtime(main)


def test_segments_are_encrypted_by_the_last_key_of_the_file_and_read_by_all(tmp_path: Path) -> None:
    keys, store = tmp_path / "keys", tmp_path / "store"
    store.mkdir()
    ring = {"remote_storage_encryption_keys": str(keys)}

    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home:
            for name, count in (("one", 60), ("two", 120)):
                with keys.open("a") as file:
                    file.write(f"{name} {b64encode(name[:1].encode() * 32).decode()}\n")
                async with tiered(home, store, **ring) as (broker, wire):
                    if name == "one":
                        await wire.create("t", 1, **TOPIC)
                    await fill(wire)
                    await until(partial(is_cut, broker, "t", count - 20))
                    assert await read_whole(wire, "t") == [VALUE] * count
                    remote = remote_of(broker, await wire.topic_id("t"))
            used = [SegmentAccess.decode(each).key_name for each in remote.segments()]
            assert sorted(set(used), key=str) == ["one", "two"]
            flags = [(store / each).read_bytes()[0] for each in objects(store)]
            assert len(flags) >= 4
            assert all(each & 2 for each in flags), "a chunk says that it is encrypted"
            async with tiered(home, store) as (broker, wire):
                answers = []

                async def is_refused() -> bool:
                    answers.append((await wire.fetch_answer("t", 0)).error_code)
                    return answers[-1] == ErrorCode.KAFKA_STORAGE_ERROR

                while not await is_refused():
                    await after(LOOK_S)
                assert set(answers[:-1]) <= {ErrorCode.REPLICA_NOT_AVAILABLE}
                complaint = "set remote.storage.encryption.keys"
                assert any(complaint in each for each in home.complaints())

    on_runtime(main)


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "cannot be read"), ("one\n", "a line is a name and a key in base64")],
)
def test_a_file_of_keys_that_cannot_be_used_ends_the_start(
    tmp_path: Path, content: str | None, why: str
) -> None:
    keys = tmp_path / "keys"
    if content is not None:
        keys.write_text(content)

    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home:
            with pytest.raises(ConfigError, match=f"remote.storage.encryption.keys.*{why}"):
                async with tiered(home, tmp_path, remote_storage_encryption_keys=str(keys)):
                    pass

    on_runtime(main)


def test_the_limits_of_a_node_are_those_of_its_settings(tmp_path: Path) -> None:
    given = {
        "remote_log_manager_copier_thread_pool_size": "3",
        "remote_log_manager_expiration_thread_pool_size": "4",
        "remote_log_manager_copy_max_bytes_per_second": "5000",
        "remote_log_manager_copy_quota_window_size_seconds": "6",
        "remote_log_manager_copy_quota_window_num": "7",
        "remote_log_manager_fetch_max_bytes_per_second": "8000",
        "remote_log_manager_fetch_quota_window_size_seconds": "9",
        "remote_log_manager_fetch_quota_window_num": "10",
        "remote_log_reader_threads": "11",
        "remote_log_reader_max_pending_tasks": "12",
        "remote_log_index_file_cache_total_size_bytes": "13000000",
        "remote_storage_orphan_grace_ms": "14",
    }

    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home, tiered(home, tmp_path, **given) as (broker, _):
            tier = broker.remote_storage
            assert tier is not None
            work, reads, limits = tier.work, tier.door.reads, tier.work.limits
            assert (limits.copies_max, limits.deletions_max) == (3, 4)
            assert (limits.copy_bytes_per_s_max, limits.orphan_grace_ms) == (5000, 14)
            copying, reading = work._quota, reads.quota
            assert isinstance(copying, ReplicationQuota)
            assert isinstance(reading, ReplicationQuota)
            assert (copying.bytes_per_second, copying.window_ms) == (5000, 6000)
            assert (reading.bytes_per_second, reading.window_ms) == (8000, 9000)
            assert (copying._windows, reading._windows) == (7, 10)
            assert (reads.limits.running_max, reads.limits.waiting_max) == (11, 12)
            assert tier.door.cache._limits.disk_bytes == 13_000_000

    on_runtime(main)


def test_a_node_without_remote_storage_says_so_and_loses_nothing(tmp_path: Path) -> None:
    """It serves what its disk has. With remote storage again, all is there."""

    async def main(runtime: Runtime) -> None:
        off = {"remote_log_storage_system_enable": "false"}
        async with house(runtime) as home:
            async with tiered(home, tmp_path) as (broker, wire):
                await wire.create("t", 1, **TOPIC)
                await fill(wire)
                await until(lambda: is_cut(broker, "t"))
                local = local_start(broker, "t")
                known = objects(tmp_path)
            for _ in range(2):
                async with tiered(home, tmp_path, **off) as (broker, wire):
                    await fill(wire, count=10)
                    log = broker.node.replicas.partition("t", 0).log
                    assert (log.log_start_offset, log.local_log_start_offset) == (0, local)
                    answer = await wire.fetch_answer("t", 0)
                    assert answer.error_code == ErrorCode.REPLICA_NOT_AVAILABLE
                    answer = await wire.fetch_answer("t", local)
                    assert answer.error_code == ErrorCode.NONE
                    line = home.complaints().pop()
                    assert "remote.log.storage.system.enable=true" in line
                    assert "t-0" in line
            assert len(home.complaints()) == 2
            async with tiered(home, tmp_path) as (broker, wire):
                assert await read_whole(wire, "t") == [VALUE] * 80
                await until(lambda: is_cut(broker, "t", local + 1))
                assert objects(tmp_path) >= known

    on_runtime(main)


def test_a_restarted_broker_goes_on_where_it_was(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home:
            async with tiered(home, tmp_path) as (broker, wire):
                await wire.create("t", 1, **TOPIC)
                await fill(wire)
                await until(lambda: is_cut(broker, "t"))
                before = first_file(broker, "t"), objects(tmp_path)
            async with tiered(home, tmp_path) as (broker, wire):
                log = broker.node.replicas.partition("t", 0).log
                assert (log.log_start_offset, log.local_log_start_offset) == (0, before[0])
                await fill(wire)
                await until(lambda: is_cut(broker, "t", before[0] + 1))
                assert log.log_start_offset == 0
                assert objects(tmp_path) > before[1]
                ranges = finished_ranges(remote_of(broker, await wire.topic_id("t")))
                assert are_gapless(ranges, last_base(broker, "t"))

    on_runtime(main)


def test_retention_counts_over_both_tiers_and_removes_remote_segments(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home, tiered(home, tmp_path) as (broker, wire):
            await wire.create("t", 1, **{**TOPIC, "retention_bytes": "6000"})
            await fill(wire)
            log = broker.node.replicas.partition("t", 0).log
            await until(lambda: is_cut(broker, "t") and log.log_start_offset > 0)
            remote_end = last_base(broker, "t")
            topic_id = await wire.topic_id("t")

            def is_trimmed() -> bool:
                ranges = finished_ranges(remote_of(broker, topic_id))
                is_few = len(objects(tmp_path)) == 2 * len(ranges) <= 8
                return is_few and min(ranges)[0] <= log.log_start_offset < remote_end

            await until(is_trimmed)

    on_runtime(main)


def test_a_deleted_topic_leaves_nothing_in_the_store(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home, tiered(home, tmp_path) as (broker, wire):
            await wire.create("t", 1, **TOPIC)
            await wire.create("kept", 1, **TOPIC)
            await fill(wire)
            await fill(wire, "kept")
            await until(lambda: is_cut(broker, "t") and is_cut(broker, "kept"))
            topic_id = await wire.topic_id("t")
            kept = {name for name in objects(tmp_path) if name.startswith("kept-")}
            await delete_topic(wire, "t")
            await until(lambda: remote_of(broker, topic_id).deletion is DeletionState.FINISHED)
            assert objects(tmp_path) == kept

    on_runtime(main)


def test_what_a_broker_left_of_a_deleted_topic_goes_after_its_restart(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home:
            async with tiered(home, tmp_path) as (broker, wire):
                await wire.create("t", 1, **TOPIC)
                await fill(wire)
                await until(lambda: is_cut(broker, "t"))
                await delete_topic(wire, "t")
            async with tiered(home, tmp_path) as (broker, wire):
                await until(lambda: not objects(tmp_path))

    on_runtime(main)


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_without_remote_storage_a_topic_loses_what_is_remote_if_it_may(
    tmp_path: Path, policy: str
) -> None:
    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home, tiered(home, tmp_path) as (broker, wire):
            await wire.create("t", 1, **TOPIC)
            await fill(wire)
            await until(lambda: is_cut(broker, "t"))
            code = await configure(wire, "t", remote_storage_enable="false")
            assert code == ErrorCode.INVALID_CONFIG
            code = await configure(
                wire,
                "t",
                remote_storage_enable="false",
                remote_log_delete_on_disable="true",
                cleanup_policy=policy,
            )
            assert code == ErrorCode.NONE
            await until(lambda: not objects(tmp_path))
            log = broker.node.replicas.partition("t", 0).log
            assert log.log_start_offset == log.local_log_start_offset > 0

    on_runtime(main)


def test_a_topic_that_keeps_what_is_remote_when_it_is_off_begins_at_its_local_records(
    tmp_path: Path,
) -> None:
    """`remote.log.delete.on.disable` is taken back while the store fails, before anything went."""

    async def main(runtime: Runtime) -> None:
        store = tmp_path / "store"
        store.mkdir()
        async with house(runtime) as home:
            async with tiered(home, store) as (broker, wire):
                await wire.create("t", 1, **TOPIC)
                await fill(wire)
                await until(lambda: is_cut(broker, "t"))
                local = local_start(broker, "t")
            gone = store.rename(tmp_path / "gone")
            async with tiered(home, store) as (broker, wire):
                log = broker.node.replicas.partition("t", 0).log
                assert log.log_start_offset == 0
                off = {"remote_storage_enable": "false"}
                assert not await configure(wire, "t", **off, remote_log_delete_on_disable="true")
                assert not await configure(wire, "t", remote_log_delete_on_disable="false")
                await until(lambda: log.log_start_offset == local)
                answer = await wire.fetch_answer("t", 0)
                assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert objects(gone)

    on_runtime(main)


def test_copies_end_where_they_are_disabled(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home, tiered(home, tmp_path) as (broker, wire):
            await wire.create("t", 1, **TOPIC)
            await wire.create("other", 1, **TOPIC)
            await fill(wire)
            await until(lambda: is_cut(broker, "t"))
            end = local_start(broker, "t")
            code = await configure(
                wire, "t", remote_log_copy_disable="true", local_retention_bytes="-2"
            )
            assert code == ErrorCode.NONE
            await fill(wire)
            await fill(wire, "other")
            await until(lambda: is_cut(broker, "other"))
            assert local_start(broker, "t") == end
            ranges = finished_ranges(remote_of(broker, await wire.topic_id("t")))
            assert max(stop for _, stop in ranges) == end

    on_runtime(main)


def test_a_compacted_topic_cannot_be_remote(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home, tiered(home, tmp_path) as (_, wire):
            code = await wire.create("t", 1, **{**TOPIC, "cleanup_policy": "compact"})
            assert code == ErrorCode.INVALID_CONFIG

    on_runtime(main)


def test_objects_that_no_segment_has_are_removed_when_they_are_old(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home:
            async with tiered(home, tmp_path) as (broker, wire):
                await wire.create("t", 1, **TOPIC)
                await fill(wire)
                await until(lambda: is_cut(broker, "t"))
            known = objects(tmp_path)
            one = tmp_path / min(known)
            orphan = one.with_name(f"{'0' * 20}-{'A' * 22}.log")
            young = one.with_name(f"{'0' * 20}-{'B' * 21}A.log")
            for each in (orphan, young):
                each.write_bytes(b"late")
            stored_s = young.stat().st_mtime
            os.utime(orphan, (stored_s, stored_s - 3600))
            async with tiered(home, tmp_path, remote_storage_orphan_grace_ms="3500000"):
                await until(lambda: not orphan.exists())
                assert objects(tmp_path) >= known | {str(young.relative_to(tmp_path))}

    on_runtime(main)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_store_that_fails_is_one_line_and_the_node_serves(tmp_path: Path, is_there: bool) -> None:
    """A folder that does not exist, and one that is a file."""

    async def main(runtime: Runtime) -> None:
        store = tmp_path / "store"
        if is_there:
            store.write_bytes(b"")
        async with house(runtime) as home, tiered(home, store) as (broker, wire):
            await wire.create("t", 1, **TOPIC)
            await fill(wire)
            await until(lambda: bool(home.complaints()))
            assert len(await wire.fetch_all("t")) == 60
            assert first_file(broker, "t") == local_start(broker, "t") == 0
            lines = [line for line in home.complaints() if str(store) in line]
            assert len(lines) == 1
            if not is_there:
                store.mkdir()
                await until(lambda: is_cut(broker, "t"))

    on_runtime(main)


def test_a_store_of_another_cluster_is_left_alone(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home, tiered(home, tmp_path) as (broker, wire):
            await wire.create("t", 1, **TOPIC)
            await fill(wire)
            await until(lambda: is_cut(broker, "t"))
        known = objects(tmp_path)
        async with house(runtime) as home, tiered(home, tmp_path) as (broker, wire):
            await wire.create("t", 1, **TOPIC)
            await fill(wire)
            await until(lambda: bool(home.complaints()))
            assert first_file(broker, "t") == 0
            assert objects(tmp_path) == known

    on_runtime(main)


def test_a_store_without_the_segments_of_the_cluster_is_named_and_not_used(tmp_path: Path) -> None:
    """As with a prefix that was mistyped: deletions there would leave the objects where they are,
    and the topic would forget them."""
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.mkdir()
    wrong.mkdir()

    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home:
            async with tiered(home, right) as (broker, wire):
                await wire.create("t", 1, **TOPIC)
                await fill(wire)
                await until(lambda: is_cut(broker, "t"))
            known = objects(right)
            async with tiered(home, wrong) as (broker, wire):
                await until(lambda: bool(home.complaints()))
                (line,) = home.complaints()
                assert "name the place where they are" in line
                local = first_file(broker, "t")
                await fill(wire)
                assert (await wire.fetch_answer("t", local)).error_code == ErrorCode.NONE
                assert first_file(broker, "t") == local
                assert objects(wrong) == set()
            async with tiered(home, right) as (broker, wire):
                assert len(await read_whole(wire, "t")) == 120
                await until(lambda: is_cut(broker, "t", local + 1))
            assert objects(right) > known

    on_runtime(main)


@pytest.mark.deep
def test_kafka_reads_the_topic_of_remote_segments(tmp_path: Path) -> None:
    kafka = fetch_or_skip()

    def dumped(files: Sequence[Path]) -> str:
        command = kafka.command(*TOOL_JVM)
        command += ["org.apache.kafka.tools.DumpLogSegments", "--remote-log-metadata-decoder"]
        command += ["--files", ",".join(map(str, files))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)  # noqa: S603
        return done.stdout

    async def main(runtime: Runtime) -> None:
        async with house(runtime) as home, tiered(home, tmp_path) as (broker, wire):
            await wire.create("t", 1, **TOPIC)
            await fill(wire)
            await until(lambda: is_cut(broker, "t"))
            topic_id = await wire.topic_id("t")
            ranges = finished_ranges(remote_of(broker, topic_id))
            files = [path for path in metadata_files(broker) if path.stat().st_size]
            text = await runtime.run_blocking(dumped, files)
            for start, end in ranges:
                assert f"startOffset={start}, endOffset={end - 1}," in text
            assert text.count("COPY_SEGMENT_FINISHED") == len(ranges)

    on_runtime(main)
