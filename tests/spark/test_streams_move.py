"""An app is stopped in the middle of a stream, moved to Spark, stopped there, and moved back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.spark.java import find_java
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.spark import streams_apps as apps
from tests.spark.conftest import QUICK_JAVA

pytestmark = [pytest.mark.real, pytest.mark.deep]
ROOT = Path(__file__).parents[2]
_WAIT_S = 400.0
_APP = "tests.spark.streams_main:app"
_PER_PART = 300


class Moving:
    """The commands of a user, and what the app has written."""

    def __init__(self, servers: str, name: str, folder: Path) -> None:
        self.servers = servers
        self._name = name
        self._folder = folder
        self._app = apps.both(name)
        self._environment = {
            **os.environ,
            "APP": name,
            "GATE": "",
            "JAVA_HOME": find_java().home,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{QUICK_JAVA}' pyspark-shell",
        }
        self.written = 0
        apps.make_topics(servers, self._app)

    def write(self) -> None:
        apps.write(self.servers, self._name, self.written, _PER_PART)
        self.written += _PER_PART

    def words(self) -> dict[bytes | None, list[int]]:
        found: dict[bytes | None, list[int]] = {}
        for each in apps.outs_of(self.servers, self._app):
            if each.topic.endswith("-words"):
                found.setdefault(each.key, []).append(int(each.value or b"0"))
        return found

    def count(self) -> int:
        return sum(map(len, self.words().values()))

    def moldau(self, *words: str) -> str:
        done = subprocess.run(  # noqa: S603 - our own command
            self._command(*words),
            env=self._environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_WAIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def running(self, *words: str) -> Iterator[None]:
        """The app, stopped by SIGTERM at the end of the block."""
        with (self._folder / "log").open("ab") as out:
            process = subprocess.Popen(  # noqa: S603 - our own command
                self._command("run", *words),
                env=self._environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        try:
            yield
            process.terminate()
            assert process.wait(_WAIT_S) == 0, (self._folder / "log").read_text()[-3000:]
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _command(self, action: str, *words: str) -> list[str]:
        where = ["--bootstrap", self.servers]
        return [sys.executable, "-m", "moldau.cli", "streams", action, _APP, *where, *words]


def test_counts_go_on_without_a_gap_or_a_repeat(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    moving = Moving(moldau_broker.bootstrap_servers, moldau_topic, tmp_path)
    state, checkpoint = str(tmp_path / "state"), str(tmp_path / "checkpoint")
    on_spark = ("--engine", "spark", "--master", "local[2]", "--checkpoint", checkpoint)

    with moving.running("--state", state):
        moving.write()
        wait_until(lambda: moving.count() > 50, "counts of the embedded engine", _WAIT_S)
        moving.write()
    told = moving.moldau("move", "--to", "spark", "--checkpoint", checkpoint)
    assert f"--engine spark --checkpoint {checkpoint}" in told

    moving.write()
    before = moving.count()
    with moving.running(*on_spark):
        wait_until(lambda: moving.count() > before + 50, "counts of Spark", _WAIT_S)
        moving.write()
    moving.moldau("move", "--to", "embedded", "--checkpoint", checkpoint)

    moving.write()
    with moving.running("--state", state):
        wait_until(lambda: moving.count() == 2 * moving.written, "all counts", _WAIT_S)
    for word, counts in moving.words().items():
        assert counts == list(range(1, len(counts) + 1)), word
