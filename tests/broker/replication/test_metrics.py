"""What the logs and replicas of a node tell when somebody asks."""

from __future__ import annotations

from moldau.broker.replication import metrics
from moldau.metrics import Registry
from moldau.runtime import Runtime
from tests.broker.log.machine import NOW, batch
from tests.broker.one_node import simulate
from tests.broker.replication.hosting import Host


def values(registry: Registry) -> dict[str, object]:
    return {
        each.name.removeprefix("moldau."): point.value
        for each in registry.snapshot()
        for point in each.points
    }


def test_each_says_what_there_is() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        registry = Registry()
        metrics.declare(registry, host.replicas)
        assert set(values(registry).values()) == {0}
        partition = host.lead("t")
        host.lead("u")
        partition.append(batch(), 1, NOW)
        found = values(registry)
        assert found["replication.partitions"] == found["replication.leaders"] == 2
        assert found["log.size"] == len(batch())
        assert found["log.segments"] == 2
        host.directories.directories[1].state.fail(OSError(5, "broken"))
        found = values(registry)
        assert found["log.directories.offline"] == 1
        assert found["replication.partitions"] == 1

    simulate(main)
