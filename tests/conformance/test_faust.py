"""An unmodified Faust app on our broker: word count and windowed table, restarts and recovery."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from moldau.client import NewTopic, TopicPartition
from moldau.client.base.offsets import LATEST
from moldau.client.sync import Admin, Consumer, Producer
from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.connect.processes import wait_until

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(find_spec("faust") is None, reason="faust-streaming is not installed"),
]

PROGRAM: Final = Path(__file__).parent / "programs" / "faust_words.py"
MINUTE_MS: Final = 60_000
_WAIT_S: Final = 120.0


class Words:
    """What a test writes to the app and reads from it."""

    def __init__(self, broker: MoldauBroker, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=self.servers) as admin:
            for topic in ("lines", "words", "counts"):
                admin.create_topic(NewTopic(f"{name}-{topic}", 2, 1))

    @contextmanager
    def worker(self, data: str) -> Iterator[None]:
        """The app as a process, with its tables in `data`; its last words if it fails.

        What it reads before it is ready it reads again then, and what it has not committed at its
        end too. So it is ready when this yields, and has committed all when it is ended.
        """
        log = self.folder / "faust.log"
        starts = self._starts(log) + 1
        environment = {
            **os.environ,
            "BROKER": self.servers,
            "NAME": self.name,
            "DATA": str(self.folder / data),
        }
        command = [sys.executable, str(PROGRAM), "worker", "--without-web", "-l", "info"]
        with log.open("ab") as out:
            process = subprocess.Popen(  # noqa: S603 - Faust's own command
                command, env=environment, cwd=self.folder, stdout=out, stderr=out
            )
        try:
            wait_until(lambda: self._starts(log) == starts, "the worker is ready", _WAIT_S)
            yield
            wait_until(self._has_committed_all, "all is committed", _WAIT_S)
            process.terminate()
            process.wait(_WAIT_S)
        except BaseException as error:
            error.add_note(log.read_text(encoding="utf-8", errors="replace")[-4000:])
            raise
        finally:
            process.kill()
            process.wait()

    @staticmethod
    def _starts(log: Path) -> int:
        return log.read_text(errors="replace").count("Worker ready") if log.exists() else 0

    def _has_committed_all(self) -> bool:
        with Admin(bootstrap_servers=self.servers) as admin:
            topics = [f"{self.name}-lines", f"{self.name}-words"]
            wanted = {TopicPartition(topic, at): LATEST for topic in topics for at in (0, 1)}
            ends = admin.list_offsets(wanted)
            committed = admin.group_offsets(self.name)
        return all(
            end.offset == (committed[where].offset if where in committed else 0)
            for where, end in ends.items()
        )

    def write(self, timestamp_ms: int, *lines: str) -> None:
        with Producer(bootstrap_servers=self.servers) as producer:
            for line in lines:
                producer.send(f"{self.name}-lines", line.encode(), timestamp_ms=timestamp_ms)
            producer.flush()

    def read(self, expected: Mapping[str, str]) -> None:
        """Returns when the last count of each word is as expected. AssertionError after a wait."""
        found: dict[str, str] = {}
        topic = f"{self.name}-counts"
        with Consumer(bootstrap_servers=self.servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
            end = time.monotonic() + _WAIT_S
            while found != expected and time.monotonic() < end:
                for part in consumer.poll(1.0):
                    for record in part.records:
                        found[record.key.decode().strip('"')] = record.value.decode()
        assert found == expected


def now_ms() -> int:
    """The last full minute of the broker's clock."""
    return int(time.time() * 1000) // MINUTE_MS * MINUTE_MS


def test_words_are_counted_over_restarts_and_recovery(moldau: MoldauBroker, tmp_path: Path) -> None:
    words = Words(moldau, f"faust-{tmp_path.name}", tmp_path)
    last = now_ms()
    with words.worker("first"):
        words.write(last - 2 * MINUTE_MS, "a b a")
        words.read({"a": "2 2", "b": "1 1"})
        words.write(last - MINUTE_MS, "a")
        words.read({"a": "3 1", "b": "1 1"})
    with words.worker("first"):  # its tables are there
        words.write(last - MINUTE_MS, "a b")
        words.read({"a": "4 2", "b": "2 1"})
    shutil.rmtree(tmp_path / "first")
    with words.worker("second"):  # its tables come from their changelog topics
        words.write(last - MINUTE_MS, "a b c")
        words.read({"a": "5 3", "b": "3 2", "c": "1 1"})
