"""What the fetcher asks for, and when."""

from __future__ import annotations

from moldau.runtime import Runtime
from tests.client.test_consumer import consumer, fill, read_all
from tests.client.world import ClientWorld


def test_what_was_committed_of_a_topic_that_is_gone_says_nothing_of_the_next_of_its_name() -> None:
    """1. It is deleted. 2. What is committed of it is still told. 3. Another one has its name."""

    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, group_id="g", auto_offset_reset="earliest") as reader:
            reader.assign([("t", 0)])
            assert await reader.poll(0.5) == []
            groups.offsets["g"].clear()
            fill(world.cluster.add_topic("t", [1])[0], 10)
            assert await read_all(reader, 10) == {0: list(range(10))}

    with ClientWorld() as world:
        groups = world.cluster.groups
        groups.offsets["g"] = {("t", 0): 6}
        world.run_client(main)
