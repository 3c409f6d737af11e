"""The processes of an app, on its own engine or as a driver of Spark."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from moldau.spark.java import find_java
from tests.spark.conftest import QUICK_JAVA
from tests.streams.pairs.hosts import SESSION_MS, Host
from tests.streams.pairs.model import BEGAN_MS, Case

_ROOT: Final = Path(__file__).parents[3]
_STOP_S: Final = 60
_STORES: Final = {
    "no cache": ("statestore.cache.max.bytes=0",),
    "small buffers": (
        "uncommitted.bytes.max=2000",
        "buffered.records.per.partition=1",
        "rocksdb.write.buffer.bytes=65536",
        "rocksdb.block.cache.bytes=0",
    ),
}
_GROUPS: Final = {
    "classic": ("consumer.heartbeat.interval.ms=500", f"consumer.session.timeout.ms={SESSION_MS}"),
    "streams": ("group.protocol=streams",),
    "standbys": ("group.protocol=streams", "num.standby.replicas=1"),
}
_SPARK: Final = (
    f"--conf spark.executor.memory=512m --conf 'spark.executor.extraJavaOptions={QUICK_JAVA}' "
    f"--driver-java-options '{QUICK_JAVA}' pyspark-shell"
)


@dataclass(slots=True)
class Workers:
    """Each worker has a directory and a log."""

    case: Case
    name: str
    host: Host
    folder: Path
    partitions: int = 0
    """Of each topic of the case, until a fault adds some."""
    is_upgraded: bool = False
    """Whether workers that start from now on have one more sub-topology."""
    is_repaired: bool = False
    """Whether the function that stops the app works from now on."""
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.partitions = int(self.case["partitions"])

    def start(self, worker: int) -> None:
        env = self._env()
        words = ["streams", "run", "tests.streams.pairs.app:app"]
        words += self.host.app_words
        settings = [f"processing.guarantee={self.case['guarantee']}"]
        if self.case["engine"] == "spark":
            words += ["--engine", "spark", "--master", "local[2]"]
            words += ["--checkpoint", str(self.state(worker))]
            env |= {"JAVA_HOME": find_java().home, "SPARK_LOCAL_IP": "127.0.0.1"}
            env["PYSPARK_SUBMIT_ARGS"] = _SPARK
        else:
            words += ["--state", str(self.state(worker))]
            settings += ["commit.interval.ms=100", *_GROUPS[self.case["group"]]]
            settings += _STORES.get(self.case["store"], ())
            if self.case["hand-over"] == "static":
                settings.append(f"group.instance.id={self.name}-{worker}")
        if self.case["fault"] == "resized" and worker == 0:
            words += ["--workers", self.case["workers"], "--listen", "127.0.0.1:0"]
        for each in settings:
            words += ["--set", each]
        with self._log(worker).open("ab") as log:
            self.processes[worker] = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "moldau.cli", *words],
                env=env, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def start_all(self) -> None:
        """Start all workers, each in a process of its own, unless one has to have them all."""
        alone = self.case["fault"] == "resized"
        for worker in range(1 if alone else int(self.case["workers"])):
            self.start(worker)

    def command(self, action: str, *words: str) -> list[str]:
        """Run a command on the app. Return what is wrong with its end."""
        code, said = self.run(action, *words)
        return [f"{action} ended with {code}: {said[-600:]}"] * bool(code)

    def run(self, action: str, *words: str) -> tuple[int, str]:
        """Run a command on the app. Return its exit code, and what it says."""
        done = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-m", "moldau.cli", "streams", action, "tests.streams.pairs.app:app",
             *words, *self.host.command_words],
            env=self._env(), cwd=_ROOT, capture_output=True, text=True, timeout=2 * _STOP_S,
            check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def _env(self) -> dict[str, str]:
        env = {
            **os.environ,
            "APP": self.name,
            "CASE": json.dumps(dict(self.case)),
            "BEGAN_MS": str(BEGAN_MS),
        }
        if self.is_upgraded:
            env["UPGRADED"] = "yes"
        return {**env, "REPAIRED": "yes"} if self.is_repaired else env

    def state(self, worker: int) -> Path:
        return self.folder / f"{self.name}-state-{worker}"

    def wipe(self, worker: int) -> None:
        """Remove what a worker has on its disk."""
        shutil.rmtree(self.state(worker), ignore_errors=True)

    def kill(self, worker: int) -> None:
        process = self.processes.pop(worker)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_STOP_S)

    def stop(self, worker: int) -> list[str]:
        """Stop a worker in order. Return what is wrong with its end."""
        self.begin_stop(worker)
        return self.await_stop(worker)

    def begin_stop(self, worker: int) -> None:
        """Ask a worker to stop."""
        self.processes[worker].terminate()

    def await_stop(self, worker: int) -> list[str]:
        """Wait for the end of a worker that is to stop. Return what is wrong with it."""
        process = self.processes.pop(worker)
        try:
            code = process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.processes[worker] = process  # it is killed in the end
            return [f"worker {worker} does not stop: {self.said(worker)[-600:]}"]
        said = self.said(worker)
        if code not in (0, -signal.SIGTERM):  # the latter before it has begun to listen to signals
            return [f"worker {worker} ended with {code}: {said[-600:]}"]
        return [f"worker {worker} wrote a traceback: {said[-900:]}"] * ("Traceback" in said)

    def member(self, worker: int) -> str:
        """Return the name of a worker in its group; "" before it has one."""
        file = self.state(worker) / self.name / "0" / "member"
        return file.read_text().strip() if file.exists() else ""

    def said(self, worker: int) -> str:
        """Return the log of a worker."""
        return self._log(worker).read_text(errors="replace")

    def _log(self, worker: int) -> Path:
        return self.folder / f"{self.name}-{worker}.log"

    def ended(self) -> list[str]:
        """Return the last words of workers that have ended by themselves."""
        return [
            f"worker {each} ended with {process.poll()}: {self.said(each)[-600:]}"
            for each, process in self.processes.items()
            if process.poll() is not None
        ]

    def have_stopped(self) -> bool:
        """Whether all workers have ended by themselves."""
        return len(self.ended()) == len(self.processes)

    def stop_problems(self) -> list[str]:
        """Return what is wrong with the ends of workers that a record has stopped: each says which,
        in lines of its own. They are no longer known then."""
        wrong = []
        for worker, process in self.processes.items():
            code, said = process.poll(), self.said(worker)
            if code != 1 or f"{self.name}-" not in said or "Traceback" in said:
                wrong.append(f"worker {worker} was to stop and has {code}: {said[-600:]}")
        for worker in list(self.processes):
            self.kill(worker)
        return wrong
