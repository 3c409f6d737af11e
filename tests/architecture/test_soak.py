"""What continuous integration leaves out is shown there by something else."""

from __future__ import annotations

import ast

import pytest

from tests import soak, suites
from tests.architecture.sources import ROOT


def defined(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}


def missing(tests: set[str]) -> list[str]:
    """Those that name no function of a file."""
    files = {each.partition("::")[0] for each in tests}
    known = {file: defined(file) for file in files if (ROOT / file).exists()}
    parts = {each: each.partition("[")[0].split("::") for each in tests}
    return sorted(each for each, (file, name) in parts.items() if name not in known.get(file, ()))


def test_each_test_that_is_named_exists() -> None:
    others = set(soak.SHOWN_ELSEWHERE.values())
    on_kafka = {f"{file}::{name}" for file, names in soak.ON_KAFKA.items() for name in names}

    assert missing({*soak.KEPT, *soak.SHOWN_ELSEWHERE, *others, *on_kafka}) == []
    assert missing({"tests/soak.py::test_a", "tests/b.py::test_c"}) != []


def test_what_stands_for_others_stays() -> None:
    left_out = {*soak.SHOWN_ELSEWHERE, *suites.HUNTS}

    assert all(soak.KEPT.values())
    assert not left_out & {*soak.SHOWN_ELSEWHERE.values(), *soak.KEPT}


@pytest.mark.parametrize("case", ["0", "1"])
def test_a_case_that_is_not_kept_is_soak(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "KEPT", {"a": frozenset({"0"})})

    assert soak.is_soak("a", case) == (case == "1")
    assert not soak.is_soak("b", case)


def test_what_is_not_named_for_kafka_runs_on_our_broker_alone() -> None:
    file = "tests/cli/test_consume_gone.py"
    names = soak.ON_KAFKA[file]

    assert soak.is_soak(f"{file}::test_another", "apache-kafka-classic")
    assert not soak.is_soak(f"{file}::test_another", "moldau-classic")
    assert not soak.is_soak(f"{file}::{min(names)}", sorted(soak.KEPT[f"{file}::{min(names)}"])[0])


def test_a_test_of_which_no_case_stays_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "KEPT", {"a": frozenset({"0"}), "b": frozenset({"x"})})

    assert soak.without_a_case([("a", "0"), ("a", "1"), ("b", "y"), ("b", "z")]) == ["b"]
    assert soak.without_a_case([("b", "y")]) == [], "one case was asked for by its name"


def test_continuous_integration_leaves_soak_out() -> None:
    text = (ROOT / ".ci/run").read_text(encoding="ascii")

    assert 'make test-deep DEEP="deep and not hunt and not soak"' in text
