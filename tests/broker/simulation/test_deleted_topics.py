"""A topic is deleted and the power fails at once: its data go all the same, and nothing else does.

The new name of a deleted log is durable a little after the answer, so the log may come back under
its old one. That its topic was deleted stands in the metadata log.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from moldau.errors.codes import ErrorCode
from moldau.ids import ZERO_UUID
from moldau.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from tests.broker.network.virtual_pause import after
from tests.broker.server.houses import House
from tests.broker.server.wire import wired

pytestmark = pytest.mark.usefixtures("no_world_is_left")

PORT = 9092
DATA = "/data"
VALUES = [b"one", b"two"]


def deletion(topic: str) -> DeleteTopicsRequest:
    named = DeleteTopicState(name=topic, topic_id=ZERO_UUID)
    return DeleteTopicsRequest(topics=[named], timeout_ms=1000)


@dataclass
class Story:
    """What a client does before the power fails, and what the next life has."""

    is_made_again: bool
    settings: dict[str, str]
    is_deleted: bool = False
    came_back: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    lives: int = 0

    async def serve(self, runtime: Runtime) -> None:
        self.lives += 1
        house = House(runtime, DATA, host="")
        house.port = PORT
        if self.lives > 1:
            self.came_back = self.logs(runtime)
        broker = await house.start(**self.settings)
        await broker.wait()

    def logs(self, runtime: Runtime) -> list[str]:
        """The directories of logs, without chance in their names."""
        names = [name for name in runtime.files.list(DATA) if "-0" in name and "__" not in name]
        return sorted(f"{name.partition('-0')[0]} {name.rpartition('-')[2]}" for name in names)

    async def delete(self, runtime: Runtime) -> None:
        async with wired(runtime, "broker", PORT) as wire:
            for topic in ("kept", "gone"):
                assert await wire.create(topic, 1, flush_messages="1") == ErrorCode.NONE
                assert (await wire.produce(topic, VALUES)).error_code == ErrorCode.NONE
            await after(3)  # the names are durable by now
            answer = await wire.ask(deletion("gone"), DeleteTopicsResponse)
            assert answer.responses[0].error_code == ErrorCode.NONE
            if self.is_made_again:
                assert await wire.create("gone", 1) == ErrorCode.NONE
            self.is_deleted = True

    async def look(self, runtime: Runtime) -> None:
        async with wired(runtime, "broker", PORT) as wire:
            assert await wire.fetch_all("kept") == VALUES
            if self.is_made_again:
                assert await wire.fetch_all("gone") == []
        await after(5)

    async def list(self, runtime: Runtime) -> None:
        self.found = self.logs(runtime)


@pytest.mark.parametrize("is_made_again", [False, True])
@pytest.mark.parametrize("snapshot_after_bytes", ["1", "100000"])
@pytest.mark.parametrize("seed", range(3))
def test_its_data_go_though_the_power_fails_at_once(
    seed: int, snapshot_after_bytes: str, is_made_again: bool
) -> None:
    settings = {
        "log_segment_delete_delay_ms": "1000",
        "metadata_log_max_record_bytes_between_snapshots": snapshot_after_bytes,
    }
    story = Story(is_made_again, settings)
    with Simulation(seed) as world:
        broker = world.add_node("broker", story.serve)
        world.run_for(2)
        world.add_node("client", story.delete)
        world.run_until(lambda: story.is_deleted, within=60)
        broker.power_loss()
        broker.start()
        world.run_for(2)
        reader = world.add_node("reader", story.look)
        world.run_until(lambda: not reader.is_alive, within=60)
        assert not reader.has_failed
        broker.crash()
        broker.start(story.list)
        world.run_for(1)

    if not is_made_again:  # else the directory was synced meanwhile, perhaps
        assert "gone 0" in story.came_back, "or the test shows nothing"
    assert story.found == (["gone 0", "kept 0"] if is_made_again else ["kept 0"])
