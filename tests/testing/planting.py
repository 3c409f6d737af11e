"""Faults of the past in the processes of cases, and the command line of a suite of cases.

A planted fault is lines of Python that each process runs when it starts (`sitecustomize`).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.testing.covering import Allowed, Apart, Case, Columns, cases_of, name_of

SEEDS: Final = (1, 2, 3)
"""The seeds whose cases look for a planted fault."""
Run = Callable[[Case], list[str]]
"""Runs a case, and returns what is wrong with its end."""


class Fault(NamedTuple):
    """A planted fault."""

    lines: str
    where: Mapping[str, str]
    """Choices without which no case can find it: other cases are left out."""


class Suite(NamedTuple):
    """Cases and what runs them."""

    columns: Columns
    allowed: Allowed
    opened: Callable[[], AbstractContextManager[Run]]
    """Starts what all cases share."""
    faults: Mapping[str, Fault]
    apart: Apart = frozenset()

    def cases(self, seed: int, strength: int = 2) -> Iterator[Case]:
        """Yield the cases of a seed."""
        return cases_of(self.columns, self.allowed, seed=seed, strength=strength, apart=self.apart)

    def cases_of(self, fault: str) -> list[Case]:
        """Return the cases that may find a fault."""
        found = [case for seed in SEEDS for case in self.cases(seed)]
        return [case for case in found if self.faults[fault].where.items() <= case.items()]

    def finds(self, fault: str) -> bool:
        """Whether a case is wrong while the fault is planted."""
        with planted(self.faults[fault]), self.opened() as run:
            return any(run(case) for case in self.cases_of(fault))


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """Plant a fault in the processes that are started meanwhile."""
    before = os.environ.get("PYTHONPATH")
    with tempfile.TemporaryDirectory(prefix="moldau-planted-") as folder:
        Path(folder, "sitecustomize.py").write_text(fault.lines, encoding="utf-8")
        os.environ["PYTHONPATH"] = folder if before is None else f"{folder}{os.pathsep}{before}"
        try:
            # A process goes on without lines that fail: they are tried first.
            subprocess.run([sys.executable, "-c", "import sitecustomize"], check=True)
            yield
        finally:
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before


def command(suite: Suite, program: str, description: str | None) -> int:
    """Run the cases of a seed, a line for each."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strength", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="begin with this case")
    parser.add_argument("--most", type=int, default=10_000, help="how many cases")
    parser.add_argument("--plant", choices=suite.faults, help="a fault; end when it is found")
    parser.add_argument("--with", dest="having", action="append", default=[], metavar="NAME=CHOICE")
    given = parser.parse_args()
    cases = list(suite.cases(given.seed, given.strength))
    if given.plant:
        cases = suite.cases_of(given.plant)
    wanted = dict(each.split("=", 1) for each in given.having)
    cases = [each for each in cases if wanted.items() <= each.items()]
    wrong = 0
    with ExitStack() as on_end:
        if given.plant:
            on_end.enter_context(planted(suite.faults[given.plant]))
        run = on_end.enter_context(suite.opened())
        for number, case in enumerate(cases[given.first :][: given.most], given.first):
            began = time.monotonic()
            found = run(case)
            wrong += bool(found)
            took = f"{number:>3} {time.monotonic() - began:5.1f} s"
            sys.stdout.write(f"{took} {name_of(case)}{''.join(f' | {e}' for e in found)}\n")
            sys.stdout.flush()
            if found and given.plant:
                break
    sys.stdout.write(f"{len(cases)} cases, {wrong} wrong\n")
    return 1 if wrong else 0
