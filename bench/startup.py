"""The time until a command runs: real processes, from start to exit.

Cold means a new interpreter. The files are in the page cache and compiled, as they are the second
time a user types a command. The cost of an import is measured as the difference to an interpreter
that does nothing, both started one after the other in the same round.

A broker begins in an empty directory. It has answered when it has sent its metadata.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench import crashed_start
from bench.harness import Case, Goal, Table
from bench.peer_brokers import HOST, cpu_seconds
from moldau.runtime.node_processes import NodeProcess, free_ports
from tests.peers.kafka_broker import ask_metadata

_STARTS_A_ROUND = 3
_UNUSUAL = frozenset(("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONPROFILEIMPORTTIME"))

_NOTHING = (sys.executable, "-c", "pass")
_PROTOCOL = (sys.executable, "-c", "import moldau.protocol")
_PRODUCE = (sys.executable, "-c", "import moldau.protocol.messages.produce")
_CONFIG = (sys.executable, "-c", "import moldau.config")
_SCRIPT = Path(sys.executable).with_name("moldau")
_MOLDAU = (str(_SCRIPT),) if _SCRIPT.exists() else (sys.executable, "-m", "moldau.cli")


def milliseconds(command: Sequence[str]) -> float:
    """Return the milliseconds of one process, from start to end; it may keep compiled files."""
    environment = {name: value for name, value in os.environ.items() if name not in _UNUSUAL}
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)  # noqa: S603
    return (time.perf_counter() - start) * 1e3


def cpu_milliseconds(command: Sequence[str]) -> float:
    """Return the CPU milliseconds of one process, its own and the kernel's for it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    milliseconds(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1e3


def cpu(command: Sequence[str]) -> Callable[[], float]:
    """Return a function that measures the median CPU of a few starts, in milliseconds."""
    return lambda: statistics.median(cpu_milliseconds(command) for _ in range(_STARTS_A_ROUND))


def whole(command: Sequence[str]) -> Callable[[], float]:
    """Return a function that measures the median of a few starts, in milliseconds."""
    return lambda: statistics.median(milliseconds(command) for _ in range(_STARTS_A_ROUND))


def added(command: Sequence[str]) -> Callable[[], float]:
    """Return a function that measures how much longer `command` takes than an idle interpreter."""

    def run() -> float:
        pairs = [(milliseconds(_NOTHING), milliseconds(command)) for _ in range(_STARTS_A_ROUND)]
        return statistics.median(full - bare for bare, full in pairs)

    return run


@contextmanager
def running_broker() -> Iterator[tuple[NodeProcess, int]]:
    """Run a broker, and yield its process and port when it has answered for the first time."""
    port = free_ports(1)[0]
    with tempfile.TemporaryDirectory(prefix="bench-startup-") as folder:
        words = ["broker", "start", "--listen", f"{HOST}:{port}", "--data", f"{folder}/data"]
        words += ["--shards", "1"]
        process = NodeProcess(words, f"{folder}/log")
        try:
            line = process.line(60)
            if line is None or " is up" not in line:
                raise RuntimeError(Path(f"{folder}/log").read_text())
            ask_metadata(port)
            yield process, port
        finally:
            process.terminate()
            process.wait(60)


def broker_milliseconds() -> float:
    begun = time.perf_counter()
    with running_broker():
        return (time.perf_counter() - begun) * 1e3


def broker_cpu_milliseconds() -> float:
    with running_broker() as (process, _):
        return cpu_seconds(process.pid) * 1e3


def topic_list_cpu_milliseconds() -> float:
    with running_broker() as (_, port):
        return cpu((*_MOLDAU, "topic", "list", "-b", f"{HOST}:{port}"))()


def tables() -> list[Table]:
    cases = [
        Case("an interpreter that does nothing", whole(_NOTHING)),
        Case("import moldau.protocol", whole(_PROTOCOL)),
        Case("import moldau.protocol, added", added(_PROTOCOL)),
        Case("import moldau.protocol.messages.produce, added", added(_PRODUCE)),
        Case("import moldau.config, added", added(_CONFIG)),
        Case("moldau --version", whole((*_MOLDAU, "--version"))),
        Case("moldau help", whole((*_MOLDAU, "help"))),
        Case("moldau --help, CPU", cpu((*_MOLDAU, "--help"))),
        Case("moldau topic list, CPU", topic_list_cpu_milliseconds),
        Case("moldau broker start, to its first answer", broker_milliseconds),
        Case("moldau broker start, to its first answer, CPU", broker_cpu_milliseconds),
    ]
    goals = [
        Goal("import moldau.protocol", at_most=80.0),
        Goal("import moldau.protocol, added", at_most=80.0),
        Goal("import moldau.protocol.messages.produce, added", at_most=80.0),
        Goal("moldau --version", at_most=250.0),
        Goal("moldau --help, CPU", at_most=150.0),
        Goal("moldau topic list, CPU", at_most=180.0),
        Goal("moldau broker start, to its first answer", at_most=400.0),
    ]
    notes = [
        "`moldau.protocol` imports its modules when they are asked for: what a program pays for it"
        " is the row with Produce.",
    ]
    commands = Table("Start-up", "ms", cases, goals, higher_is_better=False, notes=notes)
    return [commands, crashed_start.table()]
