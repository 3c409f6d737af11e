"""The time until a command runs: real processes, from start to exit.

Cold means a new interpreter. The files are in the page cache and compiled, as they are the second
time a user types a command. The cost of an import is measured as the difference to an interpreter
that does nothing, both started one after the other in the same round.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.harness import Case, Goal, Table

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
    ]
    goals = [
        Goal("import moldau.protocol", at_most=80.0),
        Goal("import moldau.protocol, added", at_most=80.0),
        Goal("import moldau.protocol.messages.produce, added", at_most=80.0),
        Goal("moldau --version", at_most=250.0),
        Goal("moldau --help, CPU", at_most=150.0),
    ]
    notes = [
        "`moldau.protocol` imports its modules when they are asked for: what a program pays for it"
        " is the row with Produce.",
    ]
    return [Table("Start-up", "ms", cases, goals, higher_is_better=False, notes=notes)]
