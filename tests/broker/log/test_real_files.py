"""The log on the operating system's own files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.recovery import Opening
from moldau.records import iter_records
from moldau.runtime.real_files import RealFiles
from tests.broker.log.machine import NOW, batch, contents

CONFIG = LogConfig(segment_bytes=5000, segment_index_bytes=4096, index_interval_bytes=500)


def open_log(folder: Path, config: LogConfig = CONFIG, *, is_clean: bool = False) -> PartitionLog:
    opening = Opening(NOW, is_clean=is_clean, recovery_point=1 << 40 if is_clean else 0)
    return PartitionLog.open(RealFiles(), str(folder / "t-0"), config, opening)


def handles_below(folder: Path) -> list[str]:
    """Return the files of the folder that this process holds open, removed ones included."""
    handles = Path("/proc/self/fd")
    if not handles.exists():
        pytest.skip("this system does not list open files there")
    targets = [_target(each) for each in handles.iterdir()]
    return [each for each in targets if each.startswith(f"{folder}/")]


def _target(handle: Path) -> str:
    """What it stands for; nothing if another thread has closed it."""
    try:
        return os.readlink(handle)
    except OSError:
        return ""


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("preallocate", [False, True])
def test_what_was_written_is_found_again(tmp_path: Path, preallocate: bool, is_clean: bool) -> None:
    config = replace(CONFIG, preallocate=preallocate)
    log = open_log(tmp_path, config)
    for _ in range(100):
        log.append_as_leader(batch(), 0, NOW)
    before = contents(log)
    sizes = [each.size_bytes for each in log.segments]
    if is_clean:
        log.close()
    else:
        log.abandon()
    again = open_log(tmp_path, config, is_clean=is_clean)
    assert contents(again) == before
    files = sorted((tmp_path / "t-0").glob("*.log"))
    assert [each.stat().st_size for each in files] == sizes
    again.close()


def test_recovery_empties_index_files_and_creates_none(tmp_path: Path) -> None:
    """To remove and create two files for each log was a third of a start after a crash."""
    log = open_log(tmp_path)
    for _ in range(20):
        log.append_as_leader(batch(), 0, NOW)
    log.abandon()
    indexes = sorted((tmp_path / "t-0").glob("*index"))
    kept = [tmp_path / f"kept-{number}" for number in range(len(indexes))]
    for index, link in zip(indexes, kept, strict=True):
        os.link(index, link)
    open_log(tmp_path).close()
    assert indexes
    assert all(map(os.path.samefile, indexes, kept))


def test_a_slice_can_be_sent_by_the_kernel_and_outlives_its_file(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(100):
        log.append_as_leader(batch(), 0, NOW)
    log.update_high_watermark(300)
    piece = log.read(0, 1 << 20)
    assert len(list(iter_records(piece.read()))) > 10
    log.increment_log_start_offset(300)
    log.delete_old_segments(NOW)
    log.retention.remove_deleted(NOW + 1_000_000)
    target = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    source = piece.fileno()
    assert source is not None
    assert os.sendfile(target, source, piece.position, len(piece)) == len(piece)
    os.close(target)
    assert (tmp_path / "out").read_bytes() == piece.read()
    log.close()
    had = handles_below(tmp_path)
    del piece
    assert (len(had), handles_below(tmp_path)) == (1, [])


def test_a_large_segment_takes_room_ahead_and_gives_it_back(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig())
    large = bytes(batch(1, size=900_000))
    for _ in range(4):
        log.append_as_leader(large, 0, NOW)
    path = Path(log.segments.active.log_path)
    log.rolling.roll(NOW)
    assert path.stat().st_size == log.segments[0].size_bytes
    assert path.stat().st_blocks * 512 < log.segments[0].size_bytes + 65_536
    log.close()
