"""Libraries are missing, too old or broken, and each is named with the command that cures it."""

from __future__ import annotations

import pytest

from moldau.cli.doctor import installed
from moldau.cli.doctor.finding import Finding, Verdict
from moldau.cli.doctor.installed import Installation, Interpreter, Need

OK, WARNING, PROBLEM = Verdict.OK, Verdict.WARNING, Verdict.PROBLEM
LINES = [
    "crc32c>=2.7",
    "httpcore2[asyncio]>=2.16",
    "uvloop>=0.21; sys_platform != 'win32'",
    'fastavro>=1.9; extra == "avro"',
    "pandas<3; extra == 'spark'",
    "moldau-platform[oauth]==0.1.0; extra == 'oauth'",
]


def of(versions: dict[str, str], lines: list[str] = LINES) -> Installation:
    named = [
        ("moldau-broker", "1.2.3", lines),
        *((name, each, []) for name, each in versions.items()),
    ]
    return installed.installation_of(named)


ALL = {"crc32c": "2.8", "httpcore2": "2.16.1", "uvloop": "0.22"}


@pytest.mark.parametrize(
    ("line", "need"),
    [
        ("crc32c>=2.7", Need("crc32c", "2.7", "", False)),
        ("Google_RE2 >=1.1.20240702", Need("google-re2", "1.1.20240702", "", False)),
        ('pyspark[sql]<5,>=4.2; extra == "spark"', Need("pyspark", "4.2", "spark", False)),
        ("uvloop>=0.21; sys_platform != 'win32'", Need("uvloop", "0.21", "", True)),
        ("x>=1; sys_platform != 'win32' and extra == 'y'", Need("x", "1", "y", True)),
        ("moldau-platform[console]==0.1.0", None),
    ],
)
def test_a_requirement_is_read(line: str, need: Need | None) -> None:
    assert installed.parsed_need(line) == need


def test_what_is_always_needed_is_there() -> None:
    (found,) = installed.libraries(of(ALL), {})

    assert found.verdict is OK


@pytest.mark.parametrize(
    ("versions", "failures", "words"),
    [
        ({"crc32c": "2.8", "uvloop": "0.22"}, {}, "httpcore2 is not installed"),
        (ALL | {"crc32c": "2.6.1"}, {}, "crc32c 2.6.1 is older than 2.7"),
        (ALL, {"crc32c": "ImportError: no GLIBC"}, "cannot be imported: ImportError: no GLIBC"),
    ],
)
def test_a_library_that_does_not_work_is_a_problem(
    versions: dict[str, str], failures: dict[str, str], words: str
) -> None:
    (found,) = installed.libraries(of(versions), failures)

    assert found.verdict is PROBLEM
    assert words in found.found
    assert found.cure.startswith("pip install ")


def test_a_library_of_other_systems_may_be_missing() -> None:
    (found,) = installed.libraries(of({"crc32c": "2.8", "httpcore2": "3"}), {})

    assert found.verdict is OK


def test_extras_are_counted_and_old_ones_are_warned_of() -> None:
    def install(extra: str) -> str:
        return f"pip install 'moldau[{extra}]'"

    (none,) = installed.extras(of(ALL), {}, install)
    assert (none.verdict, none.found) == (OK, "0 of 2 installed")
    (first, second) = installed.extras(of(ALL | {"fastavro": "1.8"}), {}, install)
    assert first.found == "1 of 2 installed (avro)"
    assert second.verdict is WARNING
    assert second.cure == "pip install 'moldau[avro]'"
    broken = installed.extras(of(ALL | {"fastavro": "1.9"}), {"fastavro": "it ends"}, install)[1]
    assert (broken.verdict, broken.why) == (PROBLEM, "Avro")


def test_only_what_is_installed_and_needed_is_imported() -> None:
    found = installed.modules_to_try(of(ALL | {"duckdb": "1.0"}))

    assert found == {"crc32c": "crc32c", "uvloop": "uvloop"}


@pytest.mark.parametrize(
    ("facts", "verdicts"),
    [
        (Interpreter("cpython", (3, 12, 1), "compiled"), [OK, OK]),
        (Interpreter("cpython", (3, 12, 1), "pure"), [OK, WARNING]),
        (Interpreter("cpython", (3, 12, 1), None), [OK]),
        (Interpreter("cpython", (3, 99, 0), "pure"), [WARNING, WARNING]),
        (Interpreter("pypy", (3, 11, 0), "pure"), [WARNING, WARNING]),
    ],
)
def test_python_and_the_kernel_are_judged(facts: Interpreter, verdicts: list[Verdict]) -> None:
    assert [each.verdict for each in installed.interpreter(facts)] == verdicts


@pytest.mark.parametrize(
    ("failed", "kernel"),
    [
        ([], "compiled"),
        ([installed.KERNEL], "pure"),
        ([installed.RECORDS, installed.KERNEL], None),
    ],
)
def test_the_kernel_is_known_by_its_import(failed: list[str], kernel: str | None) -> None:
    assert installed.kernel_of(dict.fromkeys(failed, "ImportError")) == kernel


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [
        (installed.event_loop(has_uvloop=True, is_usual=True), OK),
        (installed.event_loop(has_uvloop=False, is_usual=True), WARNING),
        (installed.event_loop(has_uvloop=False, is_usual=False), OK),
        (installed.layers({}), OK),
        (installed.layers({"moldau": "1", "moldau-broker": "1"}), OK),
        (installed.layers({"moldau": "1", "moldau-broker": "2"}), PROBLEM),
    ],
)
def test_the_loop_and_the_layers_are_judged(finding: Finding, verdict: Verdict) -> None:
    assert finding.verdict is verdict


@pytest.mark.parametrize(
    ("version", "oldest", "is_older"),
    [("1.10", "1.9", False), ("1", "1.0.0", False), ("2.7rc1", "2.8", True), ("3", "", False)],
)
def test_versions_are_compared_by_their_numbers(version: str, oldest: str, is_older: bool) -> None:
    assert installed.is_older(version, oldest) is is_older
