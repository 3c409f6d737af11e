"""docs/streams-upgrade.md: its programs, and its commands in processes of their own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer, Producer
from moldau.testing import SyncEmbeddedBroker
from tests.client.guides import programs, text_of
from tests.peers.eventually import eventually

GUIDE: Final = "streams-upgrade.md"
APPS: Final = programs(GUIDE)


@pytest.fixture
def servers() -> Iterator[str]:
    with SyncEmbeddedBroker({}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for topic in ("lines", "counts"):
                admin.create_topic(NewTopic(topic, 2, 1))
        yield broker.bootstrap_servers


def commands() -> list[str]:
    return re.findall(r"^\$ (moldau .*)$", text_of(GUIDE), re.MULTILINE)


class Machine:
    """A directory with the page's app, in which the page's commands run."""

    def __init__(self, folder: Path, servers: str) -> None:
        self.folder = folder
        self.servers = servers
        self._given = {**os.environ, "HOME": str(folder), "MOLDAU_BOOTSTRAP": servers}

    def write_app(self, program: str) -> None:
        (self.folder / "wc.py").write_text(program)

    def start(self, command: str) -> subprocess.Popen[str]:
        words = shlex.split(command.replace("/var/backups", str(self.folder)))
        return subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "moldau.cli", *words[1:]],
            cwd=self.folder, env=self._given, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def done(self, command: str, code: int = 0) -> str:
        process = self.start(command)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == code, said
        assert "Traceback" not in said, said
        return said

    def run_until(self, command: str, is_enough: Callable[[dict[str, str]], bool]) -> None:
        process = self.start(command)
        try:
            eventually(lambda: is_enough(self.counts()), within_s=120)
        finally:
            process.terminate()
            said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said

    def write(self, *lines: str) -> None:
        with Producer(bootstrap_servers=self.servers) as producer:
            for line in lines:
                producer.send("lines", line.encode())
            producer.flush()

    def counts(self) -> dict[str, str]:
        found = {}
        with Consumer(bootstrap_servers=self.servers, isolation_level="read_committed") as consumer:
            parts = consumer.partitions("counts")
            ends = consumer.end_offsets(parts)
            consumer.assign(parts)
            consumer.seek_to_beginning(parts)
            while any((consumer.position(where) or 0) < end for where, end in ends.items()):
                for part in consumer.poll(0.2):
                    found.update({each.key.decode(): each.value.decode() for each in part.records})
        return found


def rows(text: str) -> list[str]:
    """The lines of a table, without how the columns are filled up."""
    return [re.sub(r"\s+", " ", line.partition("; about")[0]) for line in text.splitlines()]


def test_the_page_changes_an_app(servers: str, tmp_path: Path) -> None:
    here = Machine(tmp_path, servers)
    plan, shown, run, save, restore, *more = commands()
    assert (plan, more[0]) == (shown, run)
    here.write_app(APPS[0])
    assert "it can start" in here.done(plan)
    here.write("a b a")
    here.run_until(run, lambda found: found == {"a": "2", "b": "1"})
    here.done(save)

    here.write_app(APPS[1])
    said = rows(here.done(plan))
    block = re.findall(
        r"^\$ .* plan wc:app\n(STORE.*?)```", text_of(GUIDE), re.MULTILINE | re.DOTALL
    )
    assert block
    assert [line for line in rows(block[0]) if line not in said] == []
    here.write("a")
    both = {"a": '{"count":3,"since":1}'}
    here.run_until(run, lambda found: both.items() <= found.items())
    assert "survives" in here.done(plan)

    here.write_app(APPS[0])
    assert "its rows have version 2" in here.done(plan, code=1)
    reset, alter, again = more[1:]
    assert again == restore
    here.done(reset)
    here.done(alter)
    here.done(again)
    here.write("b")
    here.run_until(run, lambda found: {"a": "3", "b": "2"}.items() <= found.items())


def test_the_program_of_the_page_that_needs_no_broker() -> None:
    exec(compile(APPS[2], GUIDE, "exec"), {"__name__": "guide"})  # noqa: S102
