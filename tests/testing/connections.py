"""Which pod is connected to which port of which pod, read from the kernel."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from tests.testing.chart_processes import Running

_LOOK_S: Final = 0.05
_ESTABLISHED: Final = "01"
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Connection:
    """From a part to a port of another part, which are named by their component."""

    source: str
    target: str
    port: int
    """The pod's own, not that of a Service."""


@dataclass
class Watch:
    """Collects connections, until the block ends."""

    running: Running
    more: dict[str, int]
    """Other processes by their part."""
    seen: set[Connection] = field(default_factory=set)
    problem: BaseException | None = None
    _is_ending: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ending.set()
        self._thread.join()

    def _look(self) -> None:
        try:
            while not self._is_ending.wait(_LOOK_S):
                self.seen |= connections(self.running, dict(self.more))
        except BaseException as error:  # told by the test
            self.problem = error


def connections(running: Running, more: Mapping[str, int]) -> set[Connection]:
    """What is connected now. `more` has other processes by their part, without those below them."""
    pods = list(running.services.items())
    processes = {each: name for name, one in pods for each in _family(one.process.pid)}
    processes |= {pid: name for name, pid in more.items()}
    owners = {inode: _part(name) for each, name in processes.items() for inode in _sockets(each)}
    listening = {
        port: (_part(service.partition(".")[0]), inside)
        for (service, inside), port in list(running.machine.ports.items())
        if service != "kafka-bootstrap"
    }
    found = set()
    for remote, inode in _established():
        if inode in owners and remote in listening:
            found.add(Connection(owners[inode], *listening[remote]))
    return found


def _part(name: str) -> str:
    """`broker` of kafka-broker-2."""
    return name.removeprefix("kafka-").rstrip("-0123456789")


def _family(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    with suppress(OSError):  # it has ended
        for each in (_PROC / str(pid) / "task").iterdir():
            for child in (each / "children").read_text().split():
                yield from _family(int(child))


def _sockets(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for each in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                target = os.readlink(each)
                if target.startswith("socket:["):
                    yield target[8:-1]


def _established() -> Iterator[tuple[int, str]]:
    """The remote port and the socket of each connection."""
    for line in (_PROC / "net" / "tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == _ESTABLISHED:
            yield int(words[2].partition(":")[2], 16), words[9]
