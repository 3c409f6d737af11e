"""A topic, read and committed through interceptors."""

from __future__ import annotations

from moldau.client import ConsumerInterceptor
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.world import ClientWorld


def all_is_read_and_committed(*interceptors: ConsumerInterceptor) -> None:
    """Whatever they do."""

    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(
            runtime, group_id="g", auto_offset_reset="earliest", interceptors=[*interceptors]
        ) as reader:
            await reader.subscribe("t")
            found = await read_all(reader, 100, most=10)
            await reader.commit()
            return found

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 100)
        assert world.run_client(main) == {0: list(range(100))}
        assert world.cluster.groups.offsets["g"] == {("t", 0): 100}
