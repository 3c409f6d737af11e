"""What has failed beside other tests and passes alone: counted over a whole run, and judged.

`make test AGAIN=yes` runs failed tests a second time, alone, with `--again`. A test that passes
then needed it: it is named behind all else that pytest says. A run of `.ci/run` has several parts;
the file that AGAIN_COUNT names carries the count from one to the next.

A run fails if more than `NEEDED_MAX` tests needed it, or if one in a file that the change touches
did: the first says that the suite has a fault, the second that the change may have one.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.change import Change, changed, touches

RECORD: Final = "AGAIN_COUNT"
OPTION: Final = "--again"
NEEDED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Count:
    """Of all parts of a run so far."""

    passed: int = 0
    needed: tuple[str, ...] = ()

    def after(self, passed: int, needed: Sequence[str]) -> Count:
        """Return the count with one part more. A test may need it in two parts: on two Pythons."""
        return Count(self.passed + passed, (*self.needed, *needed))


def faults(needed: Sequence[str], change: Change) -> list[str]:
    """Say why a run in which these tests needed to run again fails; nothing if it does not."""
    found = []
    if len(needed) > NEEDED_MAX:
        found.append(f"more than {NEEDED_MAX} tests needed it")
    of_change = sorted({each.partition("::")[0] for each in needed if _is_of(change, each)})
    if of_change:
        found.append(f"the change touches {', '.join(of_change)}")
    return found


def _is_of(change: Change, test: str) -> bool:
    """Whether the change touches the test's file. A change that is not known touches none."""
    return change is not None and touches(change, test.partition("::")[0])


def read(path: Path) -> Count:
    """Return what earlier parts of the run have written."""
    if not path.exists():
        return Count()
    kept = json.loads(path.read_text(encoding="utf-8"))
    return Count(kept["passed"], tuple(kept["needed"]))


def write(path: Path, count: Count) -> None:
    """Keep the count for the next part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"passed": count.passed, "needed": count.needed}, indent=1)
    path.write_text(f"{text}\n", encoding="utf-8")


def add_option(parser: pytest.Parser) -> None:
    """`--again`: what runs has failed beside other tests."""
    parser.addoption(OPTION, action="store_true", default=False)


def configure(config: pytest.Config) -> None:
    """Count in a part of `.ci/run`, and in each second run; the process that leads has all
    reports."""
    record = os.environ.get(RECORD)
    is_second = bool(config.getoption(OPTION))
    if (record or is_second) and not hasattr(config, "workerinput"):
        path = config.rootpath / record if record else None
        config.pluginmanager.register(Report(config.rootpath, path, is_second=is_second))


def _cpu_s() -> float:
    """Return what this process and all that it waited for have used of the processor: its workers
    and their children are among them when the run has ended. It says whether more workers pay."""
    spent = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)


class Report:
    """Watches one run of pytest."""

    def __init__(self, root: Path, record: Path | None, *, is_second: bool) -> None:
        self._root = root
        self._record = record
        self._is_second = is_second
        self._began_s = time.monotonic()
        self._passed: list[str] = []
        self._failed: set[str] = set()
        self._count = Count()
        self._faults: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for each phase of each test."""
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self._passed.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Adds this part to the count, and lets the run fail by it."""
        passed = [each for each in self._passed if each not in self._failed]
        before = read(self._record) if self._record else Count()
        self._count = before.after(len(passed), passed if self._is_second else ())
        if self._record:
            write(self._record, self._count)
        if self._count.needed:
            self._faults = faults(self._count.needed, changed(self._root))
        if self._faults and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> object:
        """Speaks after all others; only the closing line comes later."""
        yield
        needed = self._count.needed
        seconds = time.monotonic() - self._began_s
        terminalreporter.section("tests that needed to run again, alone", sep="-")
        terminalreporter.line(f"this part took {_cpu_s():.0f} s of CPU in {seconds:.0f} s")
        terminalreporter.line(
            f"{len(needed)} of {self._count.passed} that passed in this run so far"
        )
        for each in needed:
            terminalreporter.line(f"AGAIN {each}")
        for each in self._faults:
            terminalreporter.line(f"FAILED: {each}", red=True)
