"""A look-up that failed, and that the user has heard of, is still owed: nothing else may take the
place of what the group has committed, and no log is read on that nobody has vouched for."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from moldau.client import Consumer
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest
from moldau.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.scripted import Log
from tests.client.world import ClientWorld

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
PLACE = ("t", 0)


class Committed(ClientWorld):
    """Of the only partition of `t`, with 20 records, `g` has done the first three."""

    def __init__(self) -> None:
        super().__init__()
        (self.log,) = self.cluster.add_topic("t", [1])
        fill(self.log, 20)
        self.groups = self.cluster.groups
        self.groups.offsets["g"] = {PLACE: 3}
        self.denies = False
        """Whether the coordinator refuses to say what is committed."""
        self.asked_at: list[float] = []
        self._answer = self.groups.handle
        self.groups.handle = self._handle  # type: ignore[method-assign]

    def _handle(self, node_id: int, request: Any, reply: Any) -> None:
        def refused(response: Any) -> None:
            for group in response.groups:
                for topic in group.topics:
                    for each in topic.partitions:
                        each.error_code = DENIED
            reply(response)

        is_asked = isinstance(request, OffsetFetchRequest)
        if is_asked:
            self.asked_at.append(self.now)
        self._answer(node_id, request, refused if is_asked and self.denies else reply)

    def reader(self, runtime: Runtime) -> Consumer:
        return consumer(
            runtime,
            group_id="g",
            auto_offset_reset="latest",
            auto_commit_interval_ms=100,
            metadata_max_age_ms=200,
            request_timeout_ms=8000,
        )

    async def read_the_rest(self, reader: Consumer) -> None:
        """What comes is what the group has not done yet, and nothing else was committed before."""
        assert self.groups.commits == []
        assert await read_all(reader, 17, within_s=10.0) == {0: list(range(3, 20))}


def _check_commits(world: Committed) -> None:
    committed = [offset for _, _, offset in world.groups.commits]
    assert committed == sorted(committed)
    assert set(committed) <= {3, 20}
    assert world.groups.offsets["g"] == {PLACE: 20}


@pytest.mark.parametrize("is_subscribed", [False, True])
def test_what_is_committed_is_asked_for_again_after_a_refusal_was_told(
    is_subscribed: bool,
) -> None:
    async def main(runtime: Runtime) -> None:
        async with world.reader(runtime) as reader:
            if is_subscribed:
                await reader.subscribe(["t"])
            else:
                reader.assign([PLACE])
            with pytest.raises(KafkaError) as caught:
                await reader.poll(20.0)
            assert caught.value.code is DENIED
            world.denies = False
            await world.read_the_rest(reader)

    with Committed() as world:
        world.denies = True
        world.run_client(main)
        _check_commits(world)


def test_a_lasting_refusal_is_told_again_and_does_not_spin() -> None:
    async def main(runtime: Runtime) -> None:
        async with world.reader(runtime) as reader:
            reader.assign([PLACE])
            told, begun = 0, runtime.clock.monotonic()
            while runtime.clock.monotonic() - begun < 10.0:
                with pytest.raises(KafkaError):
                    await reader.poll(5.0)
                told += 1
            assert 8 <= told <= 20
            waits = [after - before for before, after in pairwise(world.asked_at)]
            assert min(waits) > 0.05
            world.denies = False
            await world.read_the_rest(reader)

    with Committed() as world:
        world.denies = True
        world.run_client(main)
        _check_commits(world)


def test_a_seek_after_a_refusal_needs_nothing_of_the_group() -> None:
    async def main(runtime: Runtime) -> None:
        async with world.reader(runtime) as reader:
            reader.assign([PLACE])
            with pytest.raises(KafkaError):
                await reader.poll(20.0)
            reader.seek(PLACE, 15)
            assert await read_all(reader, 5, within_s=10.0) == {0: list(range(15, 20))}

    with Committed() as world:
        world.denies = True
        world.run_client(main)
        assert len(world.asked_at) == 1


@pytest.mark.parametrize("is_known", [False, True])
def test_what_is_committed_of_a_topic_that_was_away_is_where_it_goes_on(is_known: bool) -> None:
    async def main(runtime: Runtime) -> None:
        async with world.reader(runtime) as reader:
            reader.assign([PLACE])
            if is_known:  # and goes away before the coordinator has said anything of it
                world.cluster.silence.add(OffsetFetchRequest)
                assert await reader.poll(1.0) == []
                world.cluster.silence.clear()
            logs = world.cluster.topics.pop("t")
            begun = runtime.clock.monotonic()
            with pytest.raises(KafkaError) as caught:
                await reader.poll(60.0)
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert runtime.clock.monotonic() - begun > 5.0
            world.cluster.topics["t"] = logs
            await world.read_the_rest(reader)

    with Committed() as world:
        world.run_client(main)
        _check_commits(world)


def test_a_log_is_held_against_its_new_leader_after_a_refusal_was_told() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, metadata_max_age_ms=200) as reader:
            reader.assign([PLACE])
            await reader.seek_to_beginning()
            await read_all(reader, 30)
            log.truncate(20)
            world.cluster.move("t", 0, 2)
            fill(log, 20)
            for _ in range(2):
                with pytest.raises(KafkaError) as caught:
                    await reader.poll(20.0)
                assert caught.value.code is DENIED
            assert await read_all(reader, 20, within_s=10.0) == {0: list(range(20, 40))}

    with ClientWorld() as world:
        log: Log
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 30)
        world.cluster.refuse[OffsetForLeaderEpochRequest] += [DENIED, DENIED]
        world.run_client(main)
    asked = [each for _, each in world.cluster.requests if _is_check(each)]
    assert len(asked) == 3


def _is_check(request: object) -> bool:
    return isinstance(request, OffsetForLeaderEpochRequest)
