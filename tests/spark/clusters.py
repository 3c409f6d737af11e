"""Spark as others run it: a standalone cluster of two workers, from the wheel's own scripts."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
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


EXECUTOR: Final = "CoarseGrainedExecutorBackend"
WORKER: Final = f"{_CLASSES}.worker.Worker"


@dataclass(frozen=True)
class Cluster:
    """A master and its workers, which have one core each. `start` starts the worker with this
    number, and returns when the master knows it."""

    master: str
    workers: list[subprocess.Popen[bytes]]
    start: Callable[[int], subprocess.Popen[bytes]]

    def kill_worker(self, pid: int) -> None:
        """kill -9 of the worker with this process, and a new one in its place."""
        number = [each.pid for each in self.workers].index(pid)
        self.workers[number].kill()
        assert self.workers[number].wait() == -signal.SIGKILL
        self.workers[number] = self.start(number)

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
        begun: list[subprocess.Popen[bytes]] = []

        def begin(number: int) -> subprocess.Popen[bytes]:
            own = ("-c", "1", "-m", "600m", "-d", str(folder / f"work-{number}"), master)
            words = ("--host", HOST, "--webui-port", "0", *own)
            out = folder / f"worker-{number}.log"
            begun.append(stack.enter_context(_running(WORKER, words, out, folder)))
            return begun[-1]

        def are_known() -> bool:
            return _text(log).count("Registering worker") == len(begun)

        def start(number: int) -> subprocess.Popen[bytes]:
            found = begin(number)
            wait_until(are_known, f"a worker in place of {number}", _START_S)
            return found

        workers = [begin(number) for number in range(2)]
        wait_until(are_known, "two workers", _START_S)
        yield Cluster(master, workers, start)


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
    with log.open("ab") as out:
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


def above(pid: int, word: str) -> int:
    """The process with this word in its command that has started `pid`, or one above it has."""
    while word.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
