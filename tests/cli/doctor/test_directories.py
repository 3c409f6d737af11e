"""A directory is judged by its rights, its file system, its room and its syncs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.broker.settings.log import moldau_log_dir_free_bytes_min
from moldau.cli.doctor import directories
from moldau.cli.doctor.finding import Verdict
from moldau.runtime.file_systems import DirectoryFacts

GOOD = DirectoryFacts(
    path="/data",
    existing="/",
    kind="ext4",
    is_noexec=False,
    free_bytes=100 << 30,
    total_bytes=200 << 30,
    free_files=None,
    error=None,
    sync_seconds=(0.001, 0.002, 0.5),
)


def verdicts(facts: DirectoryFacts) -> dict[str, Verdict]:
    return {each.check: each.verdict for each in directories.data_findings(facts)}


def test_a_good_disk_is_ok_and_its_median_counts() -> None:
    found = directories.data_findings(GOOD)

    assert {each.verdict for each in found} == {Verdict.OK}
    assert "2.00 ms (median of 3, longest 500.0 ms)" in found[-1].found


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("nfs4", "network"),
        ("fuse.sshfs", "network"),
        ("tmpfs", "memory"),
        ("overlay", "container"),
        ("vfat", "rights"),
    ],
)
def test_a_file_system_that_loses_logs_is_warned_of(kind: str, words: str) -> None:
    first = directories.data_findings(replace(GOOD, kind=kind))[0]

    assert first.verdict is Verdict.WARNING
    assert words in first.why
    assert first.cure


@pytest.mark.parametrize(
    ("change", "check", "verdict"),
    [
        ({"kind": None}, "data directory", Verdict.OK),
        ({"error": "Permission denied"}, "data directory", Verdict.PROBLEM),
        ({"free_bytes": 1 << 30}, "free room", Verdict.WARNING),
        ({"free_bytes": 1 << 20}, "free room", Verdict.PROBLEM),
        ({"free_files": 5}, "free room", Verdict.PROBLEM),
        ({"sync_seconds": (0.03,) * 20}, "fsync", Verdict.WARNING),
    ],
)
def test_a_fact_has_its_verdict(change: dict[str, object], check: str, verdict: Verdict) -> None:
    facts = replace(GOOD, **change)  # type: ignore[arg-type]

    assert verdicts(facts)[check] is verdict


def test_the_least_room_is_that_of_the_broker() -> None:
    assert moldau_log_dir_free_bytes_min.default == directories.FREE_MIN


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, Verdict.OK),
        ({"is_noexec": True}, Verdict.WARNING),
        ({"free_bytes": 1 << 20}, Verdict.WARNING),
        ({"error": "Read-only file system"}, Verdict.PROBLEM),
    ],
)
def test_temporary_files_need_room_and_rights(change: dict[str, object], verdict: Verdict) -> None:
    finding = directories.temporary("/tmp", replace(GOOD, **change))  # type: ignore[arg-type]  # noqa: S108

    assert finding.verdict is verdict
    assert bool(finding.cure) == (verdict is not Verdict.OK)
