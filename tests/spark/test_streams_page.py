"""The blocks of docs/streams-on-spark.md do what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from moldau.client.sync import Admin, Consumer, NewTopic, Producer
from moldau.spark.java import find_java
from moldau.testing import SyncEmbeddedBroker
from tests.client.guides import programs, text_of
from tests.connect.processes import wait_until
from tests.pipeline.files import app_plan, read
from tests.spark.conftest import QUICK_JAVA

pytestmark = pytest.mark.real
PAGE = "streams-on-spark.md"
_WAIT_S = 400.0
_WORDS = {"be": 2, "not": 1, "or": 1, "to": 2}


def commands(block: int) -> list[str]:
    """The commands of a block of the page, one a line."""
    found = re.findall(r"```sh\n(.*?)```", text_of(PAGE), re.DOTALL)
    return str(found[block]).replace("\\\n", "").splitlines()


class Terminal:
    """Runs commands of the page in a folder with the page's app."""

    def __init__(self, servers: str, folder: Path) -> None:
        self._servers = servers
        self._folder = folder
        (folder / "word_count.py").write_text(programs(PAGE)[0])

    def run(self, command: str) -> str:
        with self.started(command) as process:
            out, _ = process.communicate(timeout=_WAIT_S)
        assert process.returncode == 0, (command, out)
        return out

    @contextmanager
    def started(self, command: str) -> Iterator[subprocess.Popen[str]]:
        """The command while it runs. `echo ... | moldau ...` gets what echo says."""
        said, _, last = command.rpartition(" | ")
        words = shlex.split(last)
        assert words[0] == "moldau"
        with (
            subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "moldau.cli", *words[1:]],
                cwd=self._folder,
                env={
                    **os.environ,
                    "MOLDAU_BOOTSTRAP": self._servers,
                    "XDG_STATE_HOME": str(self._folder / "state"),
                    "JAVA_HOME": find_java().home,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{QUICK_JAVA}' pyspark-shell",
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process
        ):
            try:
                if said:
                    assert process.stdin is not None
                    process.stdin.write(" ".join(shlex.split(said)[1:]) + "\n")
                    process.stdin.close()
                    process.stdin = None
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def run_until(self, command: str, wanted: dict[str, int]) -> None:
        """Let the app run until its counts are these, and stop it."""
        with self.started(command) as process:
            wait_until(lambda: counts(self._servers) == wanted, command, _WAIT_S)
            process.terminate()
            out, _ = process.communicate(timeout=_WAIT_S)
        assert process.returncode == 0, out


def counts(servers: str) -> dict[str, int]:
    """The last count of each word."""
    with Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign(consumer.partitions("words"))
        ends = consumer.end_offsets(consumer.assignment)
        found: dict[str, int] = {}
        while any((consumer.position(where) or 0) < end for where, end in ends.items()):
            for part in consumer.poll(0.05):
                for each in part.records:
                    assert each.key is not None
                    assert each.value is not None
                    found[each.key.decode()] = int(each.value)
    return found


@pytest.mark.deep
def test_the_commands_count_words_and_move_the_app(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    install, *first, on_spark = commands(0)
    assert install == "pip install 'moldau[spark]'"
    back, embedded = (each.replace("./moved", "./word-count") for each in commands(3))
    with SyncEmbeddedBroker() as broker:
        terminal = Terminal(broker.bootstrap_servers, tmp_path)
        told = [terminal.run(each) for each in first]
        assert told[-1].endswith("it can run\n")
        terminal.run_until(on_spark, _WORDS)
        assert terminal.run(back).startswith("moved word-count: ")
        terminal.run(first[2])
        terminal.run_until(embedded, {word: 2 * count for word, count in _WORDS.items()})
        there = commands(2)[0]
        assert terminal.run(there).startswith("moved word-count: ")


def test_the_job_of_a_session_runs_what_is_there(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, until_stopped, job = programs(PAGE)
    with SyncEmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            for name in ("lines", "words"):
                admin.create_topic(NewTopic(name, 2))
        with Producer(bootstrap_servers=servers) as producer:
            producer.send("lines", b"to be or not to be")
        names: dict[str, Any] = {"spark": spark}
        for text in (app, job):
            there = text.replace("localhost:9092", servers).replace("/shared", str(tmp_path))
            exec(compile(there, PAGE, "exec"), names)  # noqa: S102
        assert counts(servers) == _WORDS
    compile(until_stopped, PAGE, "exec")


def test_the_pipeline_is_sound() -> None:
    (topology,) = re.findall(r"```yaml\n(.*?)```", text_of(PAGE), re.DOTALL)
    plans = {"word_count:app": app_plan("word-count", ["lines"], ["words"])}

    topics = "topics: {lines: {partitions: 2, external: true}, words: {partitions: 2}}"
    assert read(f"pipeline: words\n{topics}\n{topology}", plans=plans).problems == ()
