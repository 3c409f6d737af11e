"""A cluster of two workers gives what the embedded engine gives, also when an executor is lost."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.spark import streams_apps as apps
from tests.spark.clusters import standalone_cluster
from tests.spark.test_streams_kills import driver

pytestmark = [pytest.mark.real, pytest.mark.deep]
_WAIT_S = 300.0


def test_two_workers_give_what_the_embedded_engine_gives_although_an_executor_is_lost(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    servers, one, other = moldau_broker.bootstrap_servers, f"{moldau_topic}-e", f"{moldau_topic}-s"
    log, checkpoint = tmp_path / "log", tmp_path / "checkpoint"

    def outs(name: str) -> dict[Any, list[Any]]:
        return apps.in_order(apps.outs_of(servers, apps.both(name)), name)

    def expected() -> dict[Any, list[Any]]:
        apps.embedded(servers, apps.both(one), tmp_path / "state")
        return outs(one)

    for name in (one, other):
        apps.make_topics(servers, apps.both(name))
        apps.write(servers, name, 0, 300)
    with (
        standalone_cluster(tmp_path) as cluster,
        driver(servers, other, checkpoint, log, cluster.master) as process,
    ):
        wanted = expected()
        wait_until(lambda: count(outs(other)) >= count(wanted), f"see {log}", _WAIT_S)
        assert outs(other) == wanted
        tasks = {each.parent.name for each in checkpoint.glob("*/state/*/*.delta")}
        lost = executors_under(cluster.workers[0].pid)
        assert len(tasks) == 2 * apps.PARTITIONS
        assert len(lost) == 1

        # What the lost executor had on its machine is read again from the checkpoint.
        os.kill(lost[0], signal.SIGKILL)
        for name in (one, other):
            # Without cities: a batch may end between a line and the city before it.
            apps.write(servers, name, 300, 100, has_cities=False)
        wanted = expected()
        wait_until(lambda: count(outs(other)) >= count(wanted), f"see {log}", _WAIT_S)
        assert outs(other) == wanted
        assert process.poll() is None


def count(outs: dict[Any, list[Any]]) -> int:
    return sum(map(len, outs.values()))


def executors_under(worker: int) -> list[int]:
    """The processes of the executors that a worker has started."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            words = (each / "cmdline").read_bytes()
            if parent == worker and b"CoarseGrainedExecutorBackend" in words:
                found.append(int(each.name))
    return found
