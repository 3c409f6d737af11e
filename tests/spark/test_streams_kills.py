"""A driver that is killed in the middle of a batch: the next one goes on, and each record counts
once in the stores."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from moldau.spark.java import find_java
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.spark import streams_apps as apps
from tests.spark.conftest import QUICK_JAVA

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
_WAIT_S = 120.0
_CONF = (
    f"--conf spark.executor.memory=512m --conf 'spark.executor.extraJavaOptions={QUICK_JAVA}' "
    f"--driver-java-options '{QUICK_JAVA}' pyspark-shell"
)


@contextmanager
def driver(
    servers: str, name: str, checkpoint: Path, log: Path, master: str = "local[2]"
) -> Iterator[Any]:
    """A process of `moldau streams run --engine spark`, killed with its group at the end."""
    words = ["streams", "run", "tests.spark.streams_main:app", "--bootstrap", servers]
    words += ["--engine", "spark", "--master", master, "--checkpoint", str(checkpoint)]
    with log.open("ab") as out:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "moldau.cli", *words],
            env={
                **os.environ,
                "APP": name,
                "JAVA_HOME": find_java().home,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYSPARK_SUBMIT_ARGS": _CONF,
            },
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def final(servers: str, name: str) -> dict[Any, Any]:
    """The last count of each window."""
    outs = apps.outs_of(servers, apps.both(name))
    return {each.key: each.value for each in outs if each.topic == f"{name}-out"}


def written(broker: SyncEmbeddedBroker, topic: str, tmp_path: Path) -> dict[Any, Any]:
    """Write the records of both engines; return what the embedded one makes of them."""
    servers = broker.bootstrap_servers
    for name in (f"{topic}-e", f"{topic}-s"):
        apps.make_topics(servers, apps.both(name))
        apps.write(servers, name, 0, 300)
    apps.embedded(servers, apps.both(f"{topic}-e"), tmp_path / "state")
    return final(servers, f"{topic}-e")


def test_each_record_counts_once_although_a_driver_is_killed(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    written(moldau_broker, moldau_topic, tmp_path)
    servers, name = moldau_broker.bootstrap_servers, f"{moldau_topic}-s"
    log, checkpoint = tmp_path / "log", tmp_path / "checkpoint"

    with driver(servers, name, checkpoint, log) as process:
        # Changes of the first batch are there, and most likely not its commit.
        wait_until(lambda: any(checkpoint.glob("0/state/*/*.delta")), f"see {log}", _WAIT_S)
        assert process.poll() is None, log.read_text()[-3000:]
    with driver(servers, name, checkpoint, log):
        apps.write(servers, name, 300, 1)
        apps.write(servers, f"{moldau_topic}-e", 300, 1)
        apps.embedded(servers, apps.both(f"{moldau_topic}-e"), tmp_path / "state")
        wanted = final(servers, f"{moldau_topic}-e")
        wait_until(lambda: final(servers, name) == wanted, f"see {log}", _WAIT_S)
