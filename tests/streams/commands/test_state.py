"""`moldau streams state` lists the stores of a directory, whatever state some of them are in."""

from __future__ import annotations

from pathlib import Path

from moldau.runtime.real_files import RealFiles
from moldau.streams.rocks import ChangelogPosition, RocksMemory, TaskDatabase
from tests.cli.shell import Done, Shell

MEMORY = RocksMemory(cache_bytes=1 << 20, write_buffer_bytes=1 << 20)


def make_store(path: Path) -> None:
    database = TaskDatabase.open(str(path), {"counts": "key-value"}, MEMORY, RealFiles())
    database.backing("counts").write([(b"a", b"1")])
    database.commit({"counts": ChangelogPosition(7)})
    database.close()


def state(root: Path, *options: str) -> Done:
    return Shell("127.0.0.1:1")("streams", "state", "--state", str(root), *options)


def test_a_directory_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    tasks = tmp_path / "app" / "0" / "tasks"
    make_store(tasks / "0_0")
    make_store(tasks / "0_2")
    (tasks / "0_0" / "CURRENT").write_bytes(b"garbage")
    (tasks / "0_1").mkdir()

    done = state(tmp_path)

    assert [row[:5] for row in done.rows] == [["app", "0", "0_2", "counts", "key-value"]]
    damaged, half_made = done.err.splitlines()
    assert damaged.startswith(
        "moldau: app=app worker=0 task=0_0 cannot be read: the state is damaged: "
    )
    assert half_made.startswith("moldau: app=app worker=0 task=0_1 cannot be read: ")
    assert done.code == 1


def test_damaged_files_that_were_set_aside_are_named_and_not_opened(tmp_path: Path) -> None:
    worker = tmp_path / "app" / "0"
    for path in (worker / "global", worker / "tasks" / "0_0"):
        make_store(path)
        TaskDatabase.set_aside(str(path), RealFiles())
        make_store(path)

    done = state(tmp_path, "--json")

    assert [row["task"] for row in done.json] == ["global", "0_0"]
    assert done.err.splitlines() == [
        f"moldau: {aside}: damaged files that a worker has set aside; delete them if you do not "
        "need them"
        for aside in (worker / "global.damaged", worker / "tasks" / "0_0.damaged")
    ]
    assert done.code == 0


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = state(tmp_path / "nowhere")
    assert done.code == 2
    assert f"there is no directory {tmp_path / 'nowhere'}" in done.err
