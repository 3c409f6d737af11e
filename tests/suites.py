"""Two suites: `make test` finds bugs in the code, `make test-deep` takes what is long or foreign.

A test is deep if it needs Java (Apache Kafka itself, Spark), runs other clients as processes of
their own, kills workers and waits for their sessions to end, builds wheels, runs benches, or is a
test of the tests: a hunt for planted bugs over many seeds. So is one that is costly: more than a
second of CPU, its processes included. The rules below mark such tests `deep` as they are collected;
a test may also carry `@pytest.mark.deep` itself. `.ci/run` leaves out hunts and what
`tests/soak.py` names.

Invariant: a test that asks for Java without being deep fails (`may_use_java`), so the quick suite
cannot grow slow unseen.
"""

from __future__ import annotations

import json
import re
import tomllib
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests import cpu, soak
from tests.change import day

ROOT: Final = Path(__file__).parent.parent
DURATIONS: Final = ROOT / "tests" / "durations.toml"
QUICK: Final = "files"
DEEP: Final = "deep"
COSTLY: Final = "costly"
"""Its three tables."""
HEADER: Final = """\
# CPU seconds of files of tests, their processes included: of the quick suite and of the deep one
# without hunts and soak; and of costly tests, which would be quick otherwise. `total` is that of
# the quick suite. Renewed by `make test ARGS="--write-durations"`, and by the same of `make
# test-deep`; capped by tests/architecture/test_durations.py.
"""
IN_NO_RUN: Final = frozenset({"hunt", "soak"})
"""Deep tests that continuous integration leaves out: rows of files are without them."""
COSTLY_S: Final = 1.0
"""A test that takes more is costly; it is so until it takes less than half."""
CPU: Final = "cpu_s"
"""The property of a report that has what the test took."""
TURNS: Final = 3
"""The cases of a long deep file take turns, unless the change reaches it."""

DAYS: Final = 3
"""What takes turns has all run in so many days."""
ARCHITECTURE: Final = "tests/architecture/"
"""`make check` runs these. Each process of tests would read all sources again."""

LONG_S: Final = 1
"""A file that takes so many seconds or more is long: all that are written down."""

DEEP_FILES: Final = (
    "tests/bench/test_command.py",
    "tests/bench/test_groups.py",
    "tests/bench/test_harness.py",
    "tests/broker/controller/test_kafka_reads_ours.py",
    "tests/broker/coordinator/consumer/test_log_exchange.py",
    "tests/broker/coordinator/consumer/test_peer.py",
    "tests/broker/log/test_kafka_",
    "tests/broker/main/test_kafka_directories.py",
    "tests/broker/simulation/test_search.py",
    "tests/client/group/assignors/test_as_java.py",
    "tests/client/serdes/test_guide.py",
    "tests/client/serdes/test_real_java.py",
    "tests/client/consumer/test_real_racks.py",
    "tests/conformance/test_between_clients.py",
    "tests/conformance/test_directories.py",
    "tests/conformance/test_faust.py",
    "tests/conformance/test_groups_on_disk.py",
    "tests/conformance/test_java_",
    "tests/conformance/test_kcat.py",
    "tests/conformance/test_mixed_groups.py",
    "tests/conformance/test_moving_replicas.py",
    "tests/connect/kafka/test_kafka_answers.py",
    "tests/e2e/",
    "tests/peers/test_kafka_broker.py",
    "tests/protocol/oracle/test_kafka_java.py",
    "tests/records/test_build.py",
    "tests/records/test_kafka_reads_ours.py",
    "tests/release/test_dist.py",
    "tests/runtime/test_disk_mutants.py",
    "tests/spark/",
    "tests/connectors/spark/",
    "tests/connect/worker/test_end_to_end.py",
    "tests/connect/worker/test_jdbc.py",
    "tests/connect/worker/test_new_logs.py",
    "tests/connect/worker/test_several_workers.py",
    "tests/connect/worker/test_standalone.py",
    "tests/connect/worker/test_workers.py",
    "tests/pipeline/test_killed.py",
    "tests/streams/kafka/test_dead_letters.py",
    "tests/streams/kafka/test_kafka_answers.py",
    "tests/streams/real/test_bad_input.py",
    "tests/streams/real/test_foreign_keys.py",
    "tests/streams/real/test_global_tables.py",
    "tests/streams/real/test_kills.py",
    "tests/streams/real/test_queries.py",
    "tests/streams/real/test_reset.py",
    "tests/streams/real/test_traces.py",
    "tests/examples/test_shop_demo.py",
)
"""Beginnings of paths."""

HUNTS: Final = frozenset(
    {
        "tests/broker/simulation/test_broker_simulation.py"
        "::test_a_planted_bug_breaks_a_promise_that_it_names",
        "tests/broker/cluster/test_scenes.py::test_a_planted_bug_breaks_an_invariant_that_it_names",
        "tests/broker/cluster/queues/test_storm.py::test_a_planted_bug_breaks_a_promise_that_it_names",
        "tests/broker/cluster/transactional/test_storm.py"
        "::test_a_planted_bug_breaks_a_promise_that_it_names",
        "tests/broker/cluster/transactional/test_client_storm.py"
        "::test_a_planted_bug_of_the_client_breaks_a_promise",
        "tests/client/group/test_consumer_games.py::test_a_planted_bug_is_found_by_what_it_breaks",
        "tests/client/simulation/test_client_simulation.py"
        "::test_a_planted_bug_is_found_by_what_it_breaks",
        "tests/simulation/test_replicated_log.py::test_a_planted_bug_is_found",
        "tests/spark/test_streams_series.py"
        "::test_kills_of_all_kinds_lose_nothing_and_double_nothing",
        "tests/spark/test_streams_series.py::test_an_app_goes_on_from_one_core_to_a_cluster_and_back",
    }
)
"""Tests of the tests: each plants bugs and looks for seeds that find them; and series of kills that
take minutes. Not in `.ci/run`."""

DEEP_TESTS: Final = HUNTS | frozenset(
    {
        "tests/broker/coordinator/classic/test_restart.py::test_kafka_goes_on_so",
        "tests/broker/settings/test_rows.py::test_the_kept_facts_are_those_of_kafka",
        "tests/broker/settings/test_verdicts.py::test_the_kept_answers_are_those_of_kafka",
        "tests/cli/test_group_commands.py::test_kafkas_tool_plans_the_same_resets",
        "tests/cli/test_group_commands.py::test_kafkas_tool_sees_the_same_groups",
        "tests/client/settings/test_settings.py"
        "::test_every_setting_of_kafkas_clients_is_known_with_its_default",
    }
)
DEEP_FIXTURES: Final = frozenset(
    {"kafka_broker", "quick_kafka", "apache_kafka", "schema_registry", "kafka", "spark"}
)
SPARK_FILES: Final = (
    "tests/e2e/test_extras.py",
    "tests/e2e/test_security_guide.py",
    "tests/conformance/test_java_spark.py",
    "tests/connectors/spark/",
    "tests/examples/test_shop_demo.py",
    "tests/pipeline/test_app_on_spark.py",
    "tests/pipeline/test_folder_on_spark.py",
    "tests/pipeline/test_job_on_spark.py",
    "tests/pipeline/test_spark.py",
    "tests/spark/",
    "tests/streams/pairs/test_on_spark.py",
)
"""Beginnings of paths: the tests here start Spark, which needs as much memory as all others."""

# Two clients are built first, which takes a clean machine a minute.
DEEP_PARAMETERS: Final = frozenset(
    {"kafka_broker", "quick_kafka", "java", "kafka", "apache-kafka", "sarama", "franz-go"}
)

DEEP_WORDS: Final = re.compile(
    rf"\b(deep|conformance\.nodes|{'|'.join(sorted(DEEP_FIXTURES | DEEP_PARAMETERS))})\b|\bseeds\("
)
"""A file with a deep test has one of these words, unless a table above names it."""

_running: list[pytest.Item] = []
_before: list[float] = []


@cache
def files() -> tuple[str, ...]:
    """Return the files with tests, sorted."""
    found = (ROOT / "tests").rglob("test_*.py")
    return tuple(sorted(each.relative_to(ROOT).as_posix() for each in found))


def is_deep_file(path: str) -> bool:
    """Whether all tests of the file are deep."""
    return path.startswith(DEEP_FILES)


@cache
def may_be_deep(path: str) -> bool:
    """Whether the file can have a deep test, judged by its text. `mark`, which the quick suite runs
    over all other files, refuses a deep test in a file that does not look so."""
    if is_deep_file(path) or path in costly_files():
        return True
    named = any(each.startswith(f"{path}::") for each in DEEP_TESTS)
    return named or DEEP_WORDS.search((ROOT / path).read_text(encoding="utf-8")) is not None


def is_left_out(path: str, expression: str) -> bool:
    """Whether no test of the file or folder can be chosen by `-m expression`, one of those of the
    Makefile: it need not be imported then, which takes a worker up to seconds."""
    if expression.startswith("not deep"):
        if path.startswith(ARCHITECTURE) or is_deep_file(path):
            return True
        return expression.endswith(" and not long") and path in long_files()
    is_test = path.rpartition("/")[2].startswith("test_")
    if expression.startswith("(deep") and is_test and not may_be_deep(path):
        return True
    if expression.endswith(" and spark"):
        return not any(each.startswith(path) or path.startswith(each) for each in SPARK_FILES)
    return expression.endswith(" and not spark") and path.startswith(SPARK_FILES)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What tests/reach.py has left out of the deep tests: whole files, and of others the cases
    that have another turn than this one."""

    files: frozenset[str]
    in_turns: frozenset[str] = frozenset()
    turn: int = 0

    def has(self, test: str) -> bool:
        """Whether the test with this node id does not run."""
        file = test.partition("::")[0]
        return file in self.files or (file in self.in_turns and turn_of(test) != self.turn)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = {"files": sorted(self.files), "in_turns": sorted(self.in_turns), "turn": self.turn}
        path.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def turn_of(test: str) -> int:
    """Return the turn of the test with this node id."""
    return zlib.crc32(test.encode()) % TURNS


@cache
def left_out(path: Path) -> LeftOut:
    """Return what was written there."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return LeftOut(frozenset(rows["files"]), frozenset(rows["in_turns"]), rows["turn"])


@cache
def durations() -> Mapping[str, Any]:
    """Return what was last written down."""
    return tomllib.loads(DURATIONS.read_text(encoding="ascii"))


@cache
def long_files() -> frozenset[str]:
    """Return the files that took long when durations were last written down. Those that are newer
    count as quick."""
    return frozenset(file for file, seconds in durations()[QUICK].items() if seconds >= LONG_S)


@cache
def costly_files() -> frozenset[str]:
    """Return the files of costly tests."""
    return frozenset(test.partition("::")[0] for test in durations()[COSTLY])


@cache
def today() -> int:
    """Return the number of the day of HEAD: a run of one commit is always the same."""
    return day(ROOT)


def seeds(every: Iterable[int], quick: int, turns: int = 0) -> list[Any]:
    """Parameters of a test: the first `quick` are of both suites, and of the `turns` after them a
    third, another one each day. The others are of the deep suite, where they are soak."""
    more = (pytest.mark.deep, pytest.mark.soak)

    def is_quick(number: int) -> bool:
        is_its_day = (number - quick) % DAYS == today() % DAYS
        return number < quick or (number < quick + turns and is_its_day)

    return [
        pytest.param(each, marks=() if is_quick(number) else more)
        for number, each in enumerate(every)
    ]


def named(item: pytest.Item) -> str:
    """Return the test's file and name, without its case."""
    return item.nodeid.partition("[")[0]


def case_of(item: pytest.Item) -> str | None:
    """Return the parametrized case, if the test has any."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else str(callspec.id)


def is_deep(item: pytest.Item) -> bool:
    """Whether the rules above, or its own mark, put the test in the deep suite."""
    if item.get_closest_marker("deep") is not None:
        return True
    name = named(item)
    if is_deep_file(name) or name in DEEP_TESTS or item.nodeid in durations()[COSTLY]:
        return True
    if DEEP_FIXTURES & set(getattr(item, "fixturenames", ())):
        return True
    callspec = getattr(item, "callspec", None)
    values = callspec.params.values() if callspec is not None else ()
    return any(isinstance(each, str) and each in DEEP_PARAMETERS for each in values)


def mark(items: list[pytest.Item]) -> None:
    """Marks what is deep, which of that is a hunt, soak or starts Spark, and what is of a long
    file."""
    if missing := soak.without_a_case((named(item), case_of(item)) for item in items):
        raise pytest.UsageError(f"tests/soak.py keeps no case of {', '.join(missing)}")
    for item in items:
        file = item.nodeid.partition("::")[0]
        if file in long_files():
            item.add_marker(pytest.mark.long)
        if item.nodeid.startswith(SPARK_FILES):
            item.add_marker(pytest.mark.spark)
        if is_deep(item):
            if not may_be_deep(file):
                raise pytest.UsageError(f"{item.nodeid} is deep: name it in tests/suites.py")
            item.add_marker(pytest.mark.deep)
            if soak.is_soak(named(item), case_of(item)):
                item.add_marker(pytest.mark.soak)
        if named(item) in HUNTS:
            item.add_marker(pytest.mark.hunt)


def begins(item: pytest.Item | None) -> None:
    """This test runs now, or none."""
    _running[:] = [] if item is None else [item]
    _before[:] = [] if item is None else [_cpu_s(item)]


def _cpu_s(item: pytest.Item) -> float:
    """Deep tests have processes that go on behind them: Spark's JVM."""
    return cpu.of_all() if item.get_closest_marker("deep") else cpu.of_ended()


def measure(item: pytest.Item) -> None:
    """Keep what the test has taken since it began; its last report tells the process that leads."""
    taken_s = max(_cpu_s(item) - _before[0], 0.0)  # a process that nobody waited for takes its own
    item.user_properties.append((CPU, round(taken_s, 2)))


def measured_s(report: pytest.TestReport) -> float:
    """Return what the test took, 0 in a report that is not its last one."""
    return float(dict(report.user_properties).get(CPU, 0.0))  # type: ignore[arg-type]


def may_use_java() -> None:
    """Fails the test that runs, if it is not deep: Java starts slowly and is not everywhere."""
    if _running and _running[0].get_closest_marker("deep") is None:
        pytest.fail(f"{_running[0].nodeid} uses Java: name it in tests/suites.py", pytrace=False)


class Durations:
    """Adds up what each file of tests takes, and writes that down: `--write-durations`."""

    def __init__(self, path: Path, in_turns: frozenset[str] = frozenset()) -> None:
        """Files `in_turns` have only a part of their cases in this run: their rows stay."""
        self._path = path
        self._in_turns = in_turns
        self._seconds: dict[str, dict[str, float]] = {QUICK: {}, DEEP: {}}
        self._tests: dict[str, dict[str, float]] = {QUICK: {}, DEEP: {}}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for each phase of each test, under xdist in the process that leads."""
        suite = DEEP if "deep" in report.keywords else QUICK
        files, tests = self._seconds[suite], self._tests[suite]
        tests[report.nodeid] = tests.get(report.nodeid, 0.0) + measured_s(report)
        if not IN_NO_RUN & set(report.keywords):
            file = report.nodeid.partition("::")[0]
            files[file] = files.get(file, 0.0) + measured_s(report)

    def pytest_sessionfinish(self) -> None:
        """Writes what takes a second or more, the longest first, and of deep files all: what has
        no row was never measured. A run of the quick suite has all of its files; one of deep tests
        may have a part, and what it has not seen stays."""
        kept = tomllib.loads(self._path.read_text(encoding="ascii"))
        quick, deep = self._seconds[QUICK], self._seconds[DEEP]
        total = sum(quick.values()) if quick else kept["total"]
        seen = {file: seconds for file, seconds in kept[DEEP].items() if may_be_deep_file(file)}
        deep = {file: seconds for file, seconds in deep.items() if file not in self._in_turns}
        rows = "\n".join(
            (
                _rows(QUICK, quick or kept[QUICK]),
                _rows(DEEP, seen | {file: max(s, LONG_S) for file, s in deep.items()}),
                _rows(COSTLY, costly(kept[COSTLY], *self._tests.values()), COSTLY_S / 2),
            )
        )
        self._path.write_text(f"{HEADER}total = {total:.0f}\n\n{rows}", encoding="ascii")


def costly(
    kept: Mapping[str, float], quick: Mapping[str, float], deep: Mapping[str, float]
) -> dict[str, float]:
    """Return the costly tests: those of the quick ones, and those kept that are still there and
    were not seen to be quick. Tests that are deep in any case do not come to be among them."""
    found = {test: seconds for test, seconds in quick.items() if seconds > COSTLY_S}
    for test, seconds in kept.items():
        is_there = (ROOT / test.partition("::")[0]).exists()
        if is_there and deep.get(test, seconds) >= COSTLY_S / 2:
            found[test] = deep.get(test, seconds)
    return found


def may_be_deep_file(path: str) -> bool:
    """Whether the file is there and can have a deep test."""
    return (ROOT / path).exists() and may_be_deep(path)


def _rows(table: str, seconds: Mapping[str, float], at_least: float = LONG_S) -> str:
    rows = sorted(seconds.items(), key=lambda each: (-round(each[1]), each[0]))
    lines = [f"{json.dumps(name)} = {s:.0f}\n" for name, s in rows if s >= at_least]
    return "".join([f"[{table}]\n", *lines])
