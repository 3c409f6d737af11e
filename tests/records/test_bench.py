"""A run without the compiled kernel does not look like one that met its goals."""

from __future__ import annotations

import pytest

import bench.records
from bench.harness import Measured, report


def reported() -> list[tuple[Measured, str]]:
    """What is said about encoding and decoding, whatever was measured."""
    pytest.importorskip("aiokafka", reason="the peer is there after `make bench` only")
    judged = [
        Measured(table, {case.name: [1.0] for case in table.cases})
        for table in bench.records.record_tables()[:2]
    ]
    return [(each, report("records", [each], command="-", machine="-")) for each in judged]


def test_goals_that_need_the_kernel_are_not_passed_over_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench.records, "KERNEL", "pure")
    for measured, text in reported():
        assert not measured.verdicts
        assert "GOALS NOT HELD" in text


def test_with_the_kernel_there_are_goals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.records, "KERNEL", "compiled")
    for measured, text in reported():
        assert not measured.is_met
        assert "GOALS NOT HELD" not in text
