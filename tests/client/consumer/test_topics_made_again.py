"""A topic that is deleted and made again is another one: nothing of it is left out in silence, and
no offset of the old one is stored for it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from moldau.client import Consumer, TopicPartition
from moldau.errors.codes import KafkaError
from moldau.protocol.messages.list_offsets import ListOffsetsRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.protocol.versions import Versions
from moldau.runtime import Runtime
from tests.client import scripted
from tests.client.consumer.group_consumer import member
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.consumer.recreated_topic import delete, make_again
from tests.client.group.simulated_consumer import OPTIONS
from tests.client.scripted import Log
from tests.client.world import ClientWorld

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.WARNING, "moldau.client")
    return lambda: [each.getMessage() for each in caplog.records]


async def hear_of_it(reader: Consumer) -> None:
    """That it is gone."""
    async with asyncio.timeout(30.0):
        while "t" in reader._cluster.metadata.topics:
            await reader.poll(0.1)


@pytest.mark.parametrize("reset", ["latest", "earliest", "by_duration:PT1S"])
def test_who_has_read_the_old_one_reads_all_of_the_new_one_and_is_told(
    reset: str, said: Any
) -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime, auto_offset_reset=reset, metadata_max_age_ms=500) as reader:
            reader.assign([T0])
            await reader.seek_to_beginning()
            await read_all(reader, 20)
            delete(world)
            make_again(world, 1, 30)
            found = await read_all(reader, 30)
            assert await reader.poll(1.0) == []
            return found

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        assert world.run_client(main) == {0: list(range(30))}
    (line,) = said()
    assert "deleted and made again" in line
    for fact in ("topic='t'", "partition=0", "old_offset=20", "new_offset=0"):
        assert fact in line


@pytest.mark.parametrize("kind", list(OPTIONS))
@pytest.mark.parametrize("away_s", [0.0, 3.0])
def test_so_does_a_member_from_whom_it_was_taken_meanwhile(
    kind: str, away_s: float, said: Any
) -> None:
    async def main(runtime: Runtime) -> list[int]:
        options = {"metadata_max_age_ms": 500, "auto_offset_reset": "latest", **OPTIONS[kind]}
        async with consumer(runtime, group_id="g", **options) as reader:
            await reader.subscribe("t")
            async with asyncio.timeout(30.0):
                while not reader.assignment:
                    await reader.poll(0.1)
            await reader.seek_to_beginning()
            await read_all(reader, 20)
            delete(world)
            if away_s:
                async with asyncio.timeout(30.0):
                    while reader.assignment:
                        await reader.poll(0.1)
                await reader.poll(away_s)
            make_again(world, 1, 30)
            found: list[int] = []
            async with asyncio.timeout(60.0):
                while len(found) < 30:
                    parts = await reader.poll(1.0)
                    found += [record.offset for part in parts for record in part.records]
            return found

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        assert world.run_client(main) == list(range(30))
    assert [line for line in said() if "deleted and made again" in line]


def test_who_has_read_nothing_of_the_old_one_begins_where_the_setting_says(said: Any) -> None:
    async def main(runtime: Runtime) -> int | None:
        async with consumer(runtime, metadata_max_age_ms=500) as reader:
            reader.assign([T0])
            assert await reader.poll(2.0) == [], "nobody leads it"
            delete(world)
            make_again(world, 1, 30)
            assert await reader.poll(5.0) == []
            return reader.position(("t", 0))

    with ClientWorld() as world:
        world.cluster.add_topic("t", [-1])
        assert world.run_client(main) == 30
    assert said() == []


def test_where_the_group_has_committed_it_is_read_from_there(said: Any) -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        options = {"metadata_max_age_ms": 500, "enable_auto_commit": False}
        async with member(runtime, "eager", **options) as reader:
            reader.assign([T0])
            await read_all(reader, 20)
            delete(world)
            make_again(world, 1, 30)
            world.cluster.groups.offsets["g"] = {("t", 0): 25}
            return await read_all(reader, 5)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        assert world.run_client(main) == {0: list(range(25, 30))}
    (line,) = said()
    assert "old_offset=20, new_offset=25" in line


def test_without_a_reset_the_new_one_is_the_users_business() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, auto_offset_reset="none", metadata_max_age_ms=500) as reader:
            reader.assign([T0])
            reader.seek(("t", 0), 0)
            await read_all(reader, 20)
            delete(world)
            make_again(world, 1, 30)
            with pytest.raises(KafkaError, match="seek first"):
                await reader.poll(5.0)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        world.run_client(main)


@pytest.mark.parametrize("knows_ids", [True, False], ids=["by id", "old brokers"])
def test_an_offset_of_a_deleted_topic_is_not_stored_for_the_one_that_has_its_name(
    knows_ids: bool,
) -> None:
    """Though another partition of that name was assigned while there was no such topic."""

    async def main(runtime: Runtime) -> KafkaError:
        options = {"metadata_max_age_ms": 500, "enable_auto_commit": False}
        async with member(runtime, "eager", **options) as reader:
            reader.assign([T0])
            await read_all(reader, 10)
            delete(world)
            await hear_of_it(reader)
            reader.assign([T0, T1])
            made = make_again(world, 2, 20)
            assert len(made) == 2
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC") as caught:
                await reader.commit({T0: 10}, timeout_s=2.0)
            assert world.cluster.groups.offsets.get("g", {}).get(("t", 0)) is None
            assert await read_all(reader, 40) == {each: list(range(20)) for each in (0, 1)}
            await reader.commit()
            assert world.cluster.groups.offsets["g"] == {("t", 0): 20, ("t", 1): 20}
            return caught.value

    with ClientWorld() as world:
        if not knows_ids:
            world.cluster.served[8] = Versions(0, 9)
        fill(world.cluster.add_topic("t", [1])[0], 10)
        caught = world.run_client(main)
        assert caught.context["offset"] == 10


def test_an_offset_by_its_number_is_of_the_topic_that_its_user_has_records_of() -> None:
    """Also when all is known of the next one of that name."""

    async def main(runtime: Runtime) -> None:
        options = {"metadata_max_age_ms": 500, "enable_auto_commit": False}
        async with member(runtime, "eager", **options) as reader:
            reader.assign([T0])
            await read_all(reader, 10)
            delete(world)
            make_again(world, 1, 20)
            await asyncio.sleep(2.0)
            assert reader.position(("t", 0)) == 0
            for commit in (reader.commit({T0: 10}), reader.commit_soon({T0: 10})):
                with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_ID"):
                    await commit
            await reader.commit()
            assert world.cluster.groups.offsets["g"] == {("t", 0): 0}
            await reader.poll(1.0, max_records=5)
            await reader.commit({T0: 3})
            assert world.cluster.groups.offsets["g"] == {("t", 0): 3}

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


def test_what_has_no_id_does_not_take_the_others_back_to_their_names() -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager", enable_auto_commit=False) as reader:
            reader.assign([T0])
            await read_all(reader, 10)
            world.cluster.requests.clear()
            await reader.commit({T0: 10, TopicPartition("u", 0): 3})

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.cluster.add_topic("u", [1], has_id=False)
        world.run_client(main)
        said = [
            (topic.name, topic.topic_id)
            for _, each in world.cluster.requests
            if isinstance(each, OffsetCommitRequest)
            for topic in each.topics
        ]
        assert said == [("", world.cluster.ids["t"]), ("u", bytes(16))]
        assert world.cluster.groups.offsets["g"] == {("t", 0): 10, ("u", 0): 3}


def test_that_a_topic_was_deleted_is_told_once_and_not_with_every_commit(said: Any) -> None:
    async def main(runtime: Runtime) -> None:
        options = {"metadata_max_age_ms": 500, "auto_commit_interval_ms": 500}
        async with member(runtime, "eager", **options) as reader:
            reader.assign([T0, TopicPartition("u", 0)])
            await read_all(reader, 30)
            delete(world)
            await hear_of_it(reader)
            for _ in range(40):
                await reader.poll(0.3)

    with ClientWorld() as world:
        for name in "tu":
            fill(world.cluster.add_topic(name, [1])[0], 10 if name == "t" else 20)
        world.run_client(main)
        assert world.cluster.groups.offsets["g"][("u", 0)] == 20
    assert len([line for line in said() if "could not be committed" in line]) == 1


def make_other(world: ClientWorld, name: bytes, count: int, leader: int = 1) -> Log:
    """Another topic of that name, and of no leader where it is -1."""
    (log,) = world.cluster.add_topic("t", [leader])
    world.cluster.ids["t"] = name * 4
    fill(log, count)
    return log


async def read_so_far(reader: Consumer, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(60.0):
        while len(found) < count:
            found += [offset for part in await reader.poll(1.0) for offset in part.offsets()]
    return found


async def subscribe_at_the_beginning(reader: Consumer) -> None:
    await reader.subscribe("t")
    async with asyncio.timeout(30.0):
        while not reader.assignment:
            await reader.poll(0.1)
    await reader.seek_to_beginning()
    await read_all(reader, 20)


LATEST: dict[str, Any] = {"metadata_max_age_ms": 500, "auto_offset_reset": "latest"}


def test_a_topic_that_is_made_again_twice_is_read_whole() -> None:
    async def main(runtime: Runtime) -> list[int]:
        async with consumer(runtime, **LATEST) as reader:
            reader.assign([T0])
            await reader.seek_to_beginning()
            await read_all(reader, 20)
            make_other(world, b"new1", 0, leader=-1)
            await reader.poll(3.0)
            make_other(world, b"new2", 30)
            return await read_so_far(reader, 30)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        assert world.run_client(main) == list(range(30))


def test_so_is_one_that_comes_back_in_a_rebalance_before_it_has_a_leader() -> None:
    async def main(runtime: Runtime) -> list[int]:
        async with consumer(runtime, group_id="g", **LATEST, **OPTIONS["eager"]) as reader:
            await subscribe_at_the_beginning(reader)
            log = make_other(world, b"new1", 30, leader=-1)
            await reader.poll(3.0)
            reader.enforce_rebalance()
            await reader.poll(3.0)
            log.leader = 1
            return await read_so_far(reader, 30)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        assert world.run_client(main) == list(range(30))


@pytest.mark.parametrize("kind", list(OPTIONS))
@pytest.mark.parametrize("reset", ["latest", "earliest"])
def test_one_old_answer_neither_ends_what_is_read_nor_repeats_it(
    kind: str, reset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker lags behind, and tells of the topic that was."""
    stale: list[bytes] = []
    tells = scripted._topic

    def tells_of_the_old(cluster: Any, name: str) -> Any:
        found = tells(cluster, name)
        found.topic_id = stale.pop() if stale else found.topic_id
        return found

    async def main(runtime: Runtime) -> None:
        options = {**LATEST, **OPTIONS[kind], "enable_auto_commit": False}
        options["auto_offset_reset"] = reset
        async with consumer(runtime, group_id="g", **options) as reader:
            await subscribe_at_the_beginning(reader)
            old = world.cluster.ids["t"]
            log = make_other(world, b"new1", 30)
            assert await read_so_far(reader, 30) == list(range(30))
            stale.append(old)
            assert await reader.poll(2.0) == []
            assert not stale
            fill(log, 10)
            assert await read_so_far(reader, 10) == list(range(30, 40))

    monkeypatch.setattr(scripted, "_topic", tells_of_the_old)
    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        world.run_client(main)


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_an_offset_of_the_old_topic_is_not_committed_to_the_next_one_after_a_rebalance(
    kind: str,
) -> None:
    async def main(runtime: Runtime) -> None:
        options = {**LATEST, **OPTIONS[kind], "enable_auto_commit": False}
        async with consumer(runtime, group_id="g", **options) as reader:
            await subscribe_at_the_beginning(reader)
            make_other(world, b"new1", 0)
            await reader.poll(2.0)
            reader.enforce_rebalance()
            async with asyncio.timeout(30.0):
                while not reader.assignment or reader.position(("t", 0)) != 0:
                    await reader.poll(0.1)
            await reader.poll(3.0)
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_ID"):
                await reader.commit({T0: 20}, timeout_s=2.0)
            await reader.seek_to_end()
            await reader.commit({T0: 0})

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        world.run_client(main)
        assert world.cluster.groups.offsets["g"] == {("t", 0): 0}


def test_so_it_is_with_a_partition_that_was_taken_away() -> None:
    async def main(runtime: Runtime) -> None:
        options = {"metadata_max_age_ms": 500, "enable_auto_commit": False}
        async with member(runtime, "eager", **options) as reader:
            reader.assign([T0])
            await read_all(reader, 20)
            reader.assign([TopicPartition("u", 0)])
            make_other(world, b"new1", 30)
            await asyncio.sleep(2.0)
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_ID"):
                await reader.commit({T0: 20}, timeout_s=2.0)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 20)
        world.cluster.add_topic("u", [1])
        world.run_client(main)


async def take_the_first_of_another(reader: Consumer, world: ClientWorld) -> TopicPartition:
    """Both partitions of the old one are read, and one record of the new one is given; gives the
    other partition, of which records lie here."""
    reader.assign([T0, T1])
    records = aiter(reader)
    for _ in range(40):
        await anext(records)
    make_again(world, 2, 30)
    await asyncio.sleep(3.0)
    return TopicPartition("t", 1 - (await anext(records)).partition)


def test_no_offset_of_the_old_one_is_stored_while_records_of_the_new_one_only_lie_here() -> None:
    async def main(runtime: Runtime) -> None:
        options = {"metadata_max_age_ms": 500, "enable_auto_commit": False}
        async with member(runtime, "eager", **options) as reader:
            other = await take_the_first_of_another(reader, world)
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_ID"):
                await reader.commit({other: 20}, timeout_s=2.0)
            await read_all(reader, 59)
            await reader.commit({other: 30})

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 1]):
            fill(log, 20)
        world.run_client(main)
        assert set(world.cluster.groups.offsets["g"].values()) == {30}


def test_a_stale_answer_leads_back_to_where_the_user_was_in_the_old_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when records of the new one lie here that he was not given."""
    stale: list[bytes] = []
    tells = scripted._topic

    def tells_of_the_old(cluster: scripted.ScriptedCluster, name: str) -> Any:
        found = tells(cluster, name)
        found.topic_id = stale[0] if stale else found.topic_id
        return found

    monkeypatch.setattr(scripted, "_topic", tells_of_the_old)

    async def main(runtime: Runtime) -> None:
        options = {"metadata_max_age_ms": 500, "enable_auto_commit": False}
        async with member(runtime, "eager", **options) as reader:
            old = world.cluster.ids["t"]
            other = await take_the_first_of_another(reader, world)
            stale.append(old)
            await asyncio.sleep(1.2)
            assert reader.position(other) == 20

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 1]):
            fill(log, 20)
        world.run_client(main)


@pytest.mark.parametrize("kind", ["eager", "cooperative"])
def test_what_is_made_again_before_a_member_has_found_its_position_is_read_whole(
    kind: str,
) -> None:
    """It was assigned again meanwhile, in the old one."""

    async def main(runtime: Runtime) -> list[int]:
        options = {**LATEST, **OPTIONS[kind], "enable_auto_commit": False}
        async with consumer(runtime, group_id="g", **options) as reader:
            await subscribe_at_the_beginning(reader)
            log.leader = -1
            await reader.poll(2.0)
            reader.enforce_rebalance()
            await reader.poll(3.0)
            make_other(world, b"new1", 30)
            return await read_so_far(reader, 30)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 20)
        assert world.run_client(main) == list(range(30))


def test_what_is_made_again_before_a_position_is_reset_is_read_whole() -> None:
    """1. It is out of range. 2. Nobody leads the partition, so where to begin is not found."""

    async def main(runtime: Runtime) -> list[int]:
        async with consumer(runtime, **LATEST) as reader:
            reader.assign([T0])
            await reader.seek_to_beginning()
            assert len(await reader.poll(5.0, max_records=5)) == 1

            def lose_leader(_: int, request: object) -> None:
                if isinstance(request, ListOffsetsRequest):
                    log.leader = -1

            world.cluster.on_request = lose_leader
            log.start = 15
            reader.seek(("t", 0), 5)
            assert await reader.poll(3.0) == []
            assert reader.position(("t", 0)) is None
            world.cluster.on_request = None
            make_other(world, b"new1", 30)
            return await read_so_far(reader, 30)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 20)
        assert world.run_client(main) == list(range(30))


def test_without_a_group_a_deleted_topic_of_a_pattern_is_given_up() -> None:
    """The other topics are read on, and one that is made again is read like a new one."""

    async def main(runtime: Runtime) -> None:
        options = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 500}
        async with consumer(runtime, **options) as reader:
            await reader.subscribe(pattern="t|u")
            await read_all(reader, 20)
            delete(world)
            async with asyncio.timeout(30.0):
                while T0 in reader.assignment:
                    assert await reader.poll(0.2) == []
            fill(other, 10)
            await read_all(reader, 10)
            make_again(world, 1, 10)
            await reader._cluster.refresh()
            await read_all(reader, 10)
            assert sorted(reader.assignment) == [T0, ("u", 0)]

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        (other,) = world.cluster.add_topic("u", [1])
        fill(other, 10)
        world.run_client(main)


def test_a_topic_of_a_pattern_that_one_answer_leaves_out_is_kept() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            await reader.subscribe(pattern="t")
            await read_all(reader, 10)
            hidden = world.cluster.topics.pop("t")
            await reader._cluster.refresh()
            world.cluster.topics["t"] = hidden
            assert reader.assignment == [T0]
            await reader._cluster.refresh()
            fill(hidden[0], 10)
            assert await read_all(reader, 10) == {0: list(range(10, 20))}

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)
