"""How much of the machine a process may use: affinity, and the limits of its control groups."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from moldau.runtime import process_figures
from moldau.runtime.machine import machine_facts
from moldau.runtime.process_figures import core_count, memory_limit, most_cores, usable_cores
from tests.runtime.one_thread import patch_here

OWN = "0::/a.slice/b.scope\n"
OWN_OF_1 = "12:memory:/docker/c\n4:cpu,cpuacct:/docker/c\n1:name=systemd:/docker/c\n0::/elsewhere\n"


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty tree of control groups, on a machine with eight cores."""
    monkeypatch.setattr(process_figures, "_GROUPS", str(tmp_path))
    monkeypatch.setattr(process_figures, "_OWN_GROUPS", str(tmp_path / "own"))
    patch_here(monkeypatch, os, "cpu_count", lambda: 8)
    if sys.platform == "linux":
        patch_here(monkeypatch, os, "sched_getaffinity", lambda _: set(range(8)))
    return tmp_path


def plant(groups: Path, own: str, files: dict[str, str]) -> None:
    """Write the paths of this process's groups, and files of the tree."""
    (groups / "own").write_text(own)
    for name, text in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(text)


CORES: dict[str, tuple[str, dict[str, str], float]] = {
    "no limit": (OWN, {}, 8),
    "none by name": (OWN, {"cpu.max": "max 100000\n"}, 8),
    "a container sees its own group as the root": ("0::/\n", {"cpu.max": "250000 100000\n"}, 2.5),
    "the host's path does not exist there": (OWN, {"cpu.max": "50000 100000\n"}, 0.5),
    "a unit of systemd": (OWN, {"a.slice/b.scope/cpu.max": "200000 100000\n"}, 2),
    "a group above it": (
        OWN,
        {"a.slice/b.scope/cpu.max": "400000 100000\n", "a.slice/cpu.max": "300000 100000\n"},
        3,
    ),
    "another group": (OWN, {"b.scope/cpu.max": "100000 100000\n"}, 8),
    "more than there are": (OWN, {"cpu.max": "1600000 100000\n"}, 8),
    "unreadable": ("x\n\n", {"cpu.max": "unreadable", "cpu/cpu.cfs_quota_us": "1"}, 8),
    "no period": (OWN, {"cpu.max": "100000 0\n"}, 8),
    "a container of version 1": (
        OWN_OF_1,
        {"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "100000\n"},
        1.5,
    ),
    "a process of version 1": (
        OWN_OF_1,
        {
            "cpu/cpu.cfs_quota_us": "-1\n",
            "cpu/cpu.cfs_period_us": "100000\n",
            "cpu/docker/c/cpu.cfs_quota_us": "100000\n",
            "cpu/docker/c/cpu.cfs_period_us": "50000\n",
        },
        2,
    ),
}


@pytest.mark.parametrize("case", CORES)
def test_a_limit_of_cpu_is_a_number_of_cores(case: str, groups: Path) -> None:
    own, files, cores = CORES[case]
    plant(groups, own, files)

    assert usable_cores() == cores
    assert machine_facts().usable_cores == cores


@pytest.mark.parametrize(("quota", "count", "most"), [(800, 8, 6), (250, 3, 3), (50, 1, 1)])
def test_a_part_of_a_core_is_a_core(groups: Path, quota: int, count: int, most: int) -> None:
    plant(groups, OWN, {"cpu.max": f"{quota} 100\n"})

    assert (core_count(), most_cores()) == (count, most)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has affinities")
def test_affinity_counts_beside_the_limit(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_here(monkeypatch, os, "sched_getaffinity", lambda _: {3, 5})

    assert usable_cores() == 2
    plant(groups, OWN, {"cpu.max": "150000 100000\n"})
    assert usable_cores() == 1.5


@pytest.mark.parametrize(
    ("own", "name"),
    [
        (OWN, "memory.max"),
        (OWN, "a.slice/memory.max"),
        (OWN_OF_1, "memory/memory.limit_in_bytes"),
        (OWN_OF_1, "memory/docker/c/memory.limit_in_bytes"),
    ],
)
def test_memory_is_limited_by_each_group(groups: Path, own: str, name: str) -> None:
    plant(groups, own, {})
    whole = memory_limit()
    plant(groups, own, {name: "max\n"})
    assert memory_limit() == whole

    plant(groups, own, {name: "1048576\n"})
    assert memory_limit() == 1 << 20
