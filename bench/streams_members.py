"""The workers of one app in a streams group, each a process with a state directory of its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bench import streams
from bench.harness import Missing
from bench.streams import JAVA, App
from moldau.client import KafkaError

WAIT_S: Final = 300.0
_TOGETHER: Final = {"BENCH_GROUP_PROTOCOL": "streams", "BENCH_COMMIT_MS": "100"}
_OURS_GIVEN: Final = ("--set", "group.protocol=streams", "--set", "commit.interval.ms=100")


@dataclass
class Group:
    """The workers of an app. They run until `stack` is closed."""

    app: App
    stack: ExitStack = field(default_factory=ExitStack)

    def state(self, index: int) -> Path:
        return self.app.state / str(index)

    def start(self, index: int) -> subprocess.Popen[bytes]:
        """Start the worker that uses the state directory of this index."""
        state = self.state(index)
        state.mkdir(parents=True, exist_ok=True)
        app = replace(self.app, state=state)
        words, named = streams.command(app)
        given = () if app.library == JAVA else _OURS_GIVEN
        running: AbstractContextManager[subprocess.Popen[bytes]] = streams.started(
            app, [*words, *given], {**named, **_TOGETHER}
        )
        return self.stack.enter_context(running)

    def shares(self) -> list[int]:
        """Return the number of partitions that each member has."""
        found = streams.arena().admin.describe_groups([self.app.name])[self.app.name]
        if isinstance(found, KafkaError):
            return []
        return [len(each.assignment) for each in found.members]

    def members(self) -> int:
        return len(self.shares())


def until(reached: Callable[[], bool], process: subprocess.Popen[bytes], what: str) -> None:
    """Wait until something is reached. Raise Missing if it takes too long or the app ends."""
    deadline = time.monotonic() + WAIT_S
    while not reached():
        if time.monotonic() > deadline:
            raise Missing(f"{what}: not after {WAIT_S:.0f} s")
        if (code := process.poll()) is not None:
            raise Missing(f"{what}: the app ended with exit code {code}")
        time.sleep(0.01)
