"""A Connect worker as a process of its own, and its REST API as a client sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from moldau.connect.task.file_places import FILE_DIRECTORIES

pytestmark = pytest.mark.real

PATIENCE_S = 60.0
_MAIN = "from moldau.cli import main; exit(main())"


def wait_until(holds: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Returns as soon as it holds; fails with `what` when it takes too long."""
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until, f"not within {timeout_s} s: {what}"
        time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    """The processes that it has started itself."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(each) for each in text.split()]


class Worker:
    """A running worker."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url
        self.client = httpx2.Client(base_url=url, timeout=120, trust_env=False)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and body."""
        content = None if body is None else json.dumps(body)
        found = self.client.request(
            method, path, content=content, headers={"Content-Type": "application/json"}
        )
        return found.status_code, found.json() if found.content else None

    def create(self, name: str, config: Mapping[str, str]) -> None:
        status, body = self.ask("POST", "/connectors", {"name": name, "config": dict(config)})
        assert status == 201, body

    def states(self, name: str) -> list[str]:
        """Of the connector and its tasks; nothing before there is a status."""
        status, body = self.ask("GET", f"/connectors/{name}/status")
        if status != 200:
            return []
        return [body["connector"]["state"], *(task["state"] for task in body["tasks"])]

    def wait_for(self, name: str, *states: str) -> None:
        wait_until(lambda: self.states(name) == list(states), f"{name} is {states}")

    def task_pids(self) -> list[int]:
        """The processes of its tasks."""
        found = []
        for child in children_of(self.process.pid):
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if b"moldau.connect.task" in words:
                found.append(child)
            elif b"moldau.runtime.fork_server" in words:
                found += children_of(child)
        return found

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


@contextmanager
def command(*words: str, environment: Mapping[str, str]) -> Iterator[Worker]:
    """`moldau connect` with these words, from its announcement on. A worker of a group allows all
    files, unless the words say otherwise."""
    if words[0] == "start" and not any(FILE_DIRECTORIES in each for each in words):
        words = (*words, "--set", f"{FILE_DIRECTORIES}=/")
    with subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", _MAIN, "connect", *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            assert process.stdout is not None
            url = ""
            for line in process.stdout:
                if line.startswith("  rest"):
                    url = line.split()[1]
                if line.startswith("Ctrl-C"):
                    break
            assert process.poll() is None, "the worker did not start"
            worker = Worker(process, url)
            try:
                yield worker
            finally:
                worker.client.close()
        finally:
            process.kill()
