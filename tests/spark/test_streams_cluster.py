"""A cluster of two workers gives what the embedded engine gives, also when an executor is lost."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.spark import streams_apps as apps
from tests.spark.clusters import standalone_cluster
from tests.spark.test_streams_kills import driver, final, written

pytestmark = [pytest.mark.real, pytest.mark.deep]
_WAIT_S = 300.0


def test_two_workers_give_what_the_embedded_engine_gives_although_an_executor_is_lost(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    wanted = written(moldau_broker, moldau_topic, tmp_path)
    servers, name = moldau_broker.bootstrap_servers, f"{moldau_topic}-s"
    log, checkpoint = tmp_path / "log", tmp_path / "checkpoint"

    with (
        standalone_cluster(tmp_path) as cluster,
        driver(servers, name, checkpoint, log, cluster.master) as process,
    ):
        wait_until(lambda: final(servers, name) == wanted, f"see {log}", _WAIT_S)
        assert process.poll() is None
        used = {each.parent.name for each in checkpoint.glob("0/state/*/*.delta")}
        lost = executors_under(cluster.workers[0].pid)
        assert len(used) == apps.PARTITIONS
        assert len(lost) == 1
        # What the lost executor had on its machine is read again from the checkpoint.
        for pid in lost:
            os.kill(pid, signal.SIGKILL)
        for topic in (name, f"{moldau_topic}-e"):
            apps.write(servers, topic, 300, 100)
        apps.embedded(servers, apps.windowed_join(f"{moldau_topic}-e"), tmp_path / "state")
        wanted = final(servers, f"{moldau_topic}-e")
        wait_until(lambda: final(servers, name) == wanted, f"see {log}", _WAIT_S)
        assert process.poll() is None


def executors_under(worker: int) -> list[int]:
    """Return the processes of the executors that a worker has started."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            words = (each / "cmdline").read_bytes()
            if parent == worker and b"CoarseGrainedExecutorBackend" in words:
                found.append(int(each.name))
    return found
