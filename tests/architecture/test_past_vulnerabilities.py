"""docs/security-past.md names a test for each vulnerability of Kafka and of its neighbours."""

from __future__ import annotations

import re

import pytest

from tests.architecture.sources import ROOT

PAGE = ROOT / "docs" / "security-past.md"
BY_YEAR = {
    2017: (12610,),
    2018: (
        1288,
        17196,
    ),
    2019: (12399,),
    2021: (38153,),
    2022: (34917,),
    2023: (
        25194,
        34453,
        34454,
        34455,
        43642,
    ),
    2024: (
        27309,
        31141,
        36543,
        56128,
    ),
    2025: (
        27817,
        27818,
        27819,
        61673,
    ),
    2026: (
        10143,
        33557,
        33558,
        35554,
        83525,
        110985,
        111073,
        111108,
        111115,
    ),
}
KNOWN = {f"CVE-{year}-{number}" for year, numbers in BY_YEAR.items() for number in numbers}
_ROW = re.compile(r"^\| (CVE-[^|]+)\|([^|]+)\|([^|]+)\|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def missing_tests(text: str) -> list[str]:
    """What the rows lack: a test at all, or a test of that name in the file."""
    found = []
    for ids, _, proof in _ROW.findall(text):
        named = _TEST.findall(proof)
        if not named:
            found.append(f"{ids.strip()}: no test")
        for path, test in named:
            place = ROOT / path
            if not place.exists() or f"def {test}(" not in place.read_text(encoding="utf-8"):
                found.append(f"{ids.strip()}: {path}::{test}")
    return found


def test_each_past_vulnerability_has_a_test() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert missing_tests(text) == []
    told = {f"CVE-{each}" for ids, _, _ in _ROW.findall(text) for each in _numbers(ids)}
    assert told == KNOWN


def _numbers(ids: str) -> list[str]:
    return re.findall(r"\d{4}-\d+", ids)


@pytest.mark.parametrize(
    ("proof", "is_missing"),
    [
        ("`tests/architecture/test_past_vulnerabilities.py::test_a_planted_row_is_checked`", False),
        ("`tests/architecture/test_past_vulnerabilities.py::test_a_planted`", True),
        ("`tests/architecture/no_such.py::test_a`", True),
        ("nothing", True),
    ],
)
def test_a_planted_row_is_checked(proof: str, is_missing: bool) -> None:
    assert bool(missing_tests(f"| CVE-1-2 | what | {proof} |")) is is_missing
