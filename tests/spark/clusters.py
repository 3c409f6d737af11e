"""Spark as others run it: a standalone cluster of two workers, from the wheel's own scripts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from moldau.runtime.node_processes import free_ports
from moldau.spark.java import find_java
from tests.connect.processes import wait_until
from tests.spark.conftest import QUICK_JAVA

HOST: Final = "127.0.0.1"
_CLASSES: Final = "org.apache.spark.deploy"
_START_S: Final = 120.0


@dataclass(frozen=True)
class Cluster:
    """A master and its workers, which have one core each."""

    master: str
    workers: list[subprocess.Popen[bytes]]

    def conf(self) -> dict[str, str]:
        """What a session on it needs, as settings of a connector."""
        return {
            "spark.master": self.master,
            "spark.conf.executor.memory": "512m",
            "spark.conf.executor.extraJavaOptions": QUICK_JAVA,
            "spark.conf.task.maxFailures": "4",
        }


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[Cluster]:
    """Runs until the block ends."""
    port = free_ports(1)[0]
    master = f"spark://{HOST}:{port}"
    with ExitStack() as stack:
        log = folder / "master.log"
        words = ("--host", HOST, "--port", str(port), "--webui-port", "0")
        stack.enter_context(_running(f"{_CLASSES}.master.Master", words, log, folder))
        wait_until(lambda: "Starting Spark master" in _text(log), "a master", _START_S)
        workers = [
            stack.enter_context(
                _running(
                    f"{_CLASSES}.worker.Worker",
                    ("--host", HOST, "--webui-port", "0", "-c", "1", "-m", "600m",
                     "-d", str(folder / f"work-{number}"), master),
                    folder / f"worker-{number}.log",
                    folder,
                )
            )
            for number in range(2)
        ]  # fmt: skip
        wait_until(lambda: _text(log).count("Registering worker") == 2, "two workers", _START_S)
        yield Cluster(master, workers)


@contextmanager
def _running(
    name: str, words: tuple[str, ...], log: Path, folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    home = Path(found.origin).parent
    environment = {
        **os.environ,
        "JAVA_HOME": find_java().home,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOG_DIR": str(folder),
        "SPARK_DAEMON_MEMORY": "200m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
    }
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603 - the wheel's own script
            [str(home / "bin" / "spark-class"), name, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
