"""docs/streams-upgrade.md: its programs, and its commands in processes of their own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from moldau.client.sync import Consumer, Producer
from moldau.testing import SyncEmbeddedBroker
from tests.client.guides import programs, text_of
from tests.peers.eventually import eventually

GUIDE: Final = "streams-upgrade.md"
APPS: Final = programs(GUIDE)


ELSEWHERE: Final = " -b other:9092"


@pytest.fixture
def servers() -> Iterator[str]:
    with SyncEmbeddedBroker({}) as broker:
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
        words = shlex.split(command)
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

    @contextmanager
    def running(self, command: str, is_enough: Callable[[dict[str, str]], bool]) -> Iterator[None]:
        """Run the app in the block, which begins when its results are enough."""
        process = self.start(command)
        try:
            eventually(lambda: is_enough(self.counts()), within_s=120)
            yield
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
    asked, *topics, first, plan, run, save, restore, started, reset, alter, again = commands()
    assert (asked, first, started) == (plan, run, f"{run}{ELSEWHERE}")
    assert restore == f"{again}{ELSEWHERE}"
    for each in topics:
        here.done(each)
    here.write_app(APPS[0])
    (line,) = re.findall(r'^\$ echo "(.*)" \| moldau produce lines$', text_of(GUIDE), re.MULTILINE)
    here.write(line)
    counted = {"to": "2", "be": "2", "or": "1", "not": "1"}
    with here.running(first, lambda found: found == counted):
        assert "it can start" in here.done(asked)
        here.write_app(APPS[1])
        said = rows(here.done(plan))
    block = re.findall(
        r"^\$ .* plan wc:app\n(STORE.*?)```", text_of(GUIDE), re.MULTILINE | re.DOTALL
    )
    assert block
    assert [line for line in rows(block[0]) if line not in said] == []
    here.write_app(APPS[0])
    here.done(save)

    here.write_app(APPS[1])
    here.write("be")
    both = {"be": '{"count":3,"since":1}'}
    with here.running(run, lambda found: both.items() <= found.items()):
        eventually(lambda: "survives" in here.done(plan), within_s=120)

    here.write_app(APPS[0])
    assert "its rows have version 2" in here.done(plan, code=1)
    here.done(reset)
    here.done(alter)
    here.done(again)
    here.write("or")
    with here.running(run, lambda found: {"be": "3", "or": "2"}.items() <= found.items()):
        pass


def test_the_program_of_the_page_that_needs_no_broker() -> None:
    exec(compile(APPS[2], GUIDE, "exec"), {"__name__": "guide"})  # noqa: S102
