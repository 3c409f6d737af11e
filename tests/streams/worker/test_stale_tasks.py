"""Stores of tasks that went away are kept for a while, then deleted."""

from __future__ import annotations

from pathlib import Path

from moldau.runtime.real_files import RealFiles
from moldau.streams.worker.own_tasks import StaleTasks


def test_a_directory_is_deleted_when_it_was_unused_for_the_delay(tmp_path: Path) -> None:
    for name in ("0_0", "0_1", "1_0.damaged"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "000004.sst").write_bytes(b"rows")
    deleted: list[str] = []
    stale = StaleTasks(str(tmp_path), RealFiles(), 10.0)

    stale.clean({"0_0"}, 100.0, deleted.append)
    stale.clean({"0_0", "0_1"}, 105.0, deleted.append)  # it came back
    stale.clean({"0_0"}, 106.0, deleted.append)
    stale.clean({"0_0"}, 115.0, deleted.append)
    assert deleted == []
    stale.clean({"0_0"}, 116.0, deleted.append)

    assert deleted == ["0_1"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0_0", "1_0.damaged"]


def test_it_looks_a_few_times_in_each_delay(tmp_path: Path) -> None:
    stale = StaleTasks(str(tmp_path / "none"), RealFiles(), 8.0)
    assert [stale.is_due(now) for now in (5.0, 6.0, 7.0, 8.5)] == [True, False, True, False]
    stale.clean(set(), 1.0, lambda _: None)
