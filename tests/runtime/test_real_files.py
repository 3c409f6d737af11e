"""What only the operating system does to files: short writes, old systems, other processes."""

from __future__ import annotations

import builtins
import errno
import fcntl
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from moldau.runtime import real_files
from moldau.runtime.files import Buffer, File, parent_path
from moldau.runtime.real_files import RealFiles
from tests.runtime.one_thread import patch_here
from tests.runtime.pipes import filled_pipe

SOME = 3


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    with RealFiles().open(f"{tmp_path}/log", "create") as file:
        yield file


def short_writes(monkeypatch: pytest.MonkeyPatch, room: int = 1 << 30) -> None:
    """Each call stores `SOME` bytes at most, until the disk is full."""
    pwrite = os.pwrite
    left = room

    def write_some(fd: int, data: Buffer, position: int) -> int:
        nonlocal left
        piece = bytes(data)[: min(SOME, left)]
        if data and not piece:
            raise OSError(errno.ENOSPC, "No space left on device")
        left -= len(piece)
        return pwrite(fd, piece, position)

    def write_some_parts(fd: int, parts: Sequence[Buffer], position: int) -> int:
        return write_some(fd, b"".join(parts), position)

    patch_here(monkeypatch, os, "pwrite", write_some)
    if hasattr(os, "pwritev"):
        patch_here(monkeypatch, os, "pwritev", write_some_parts)


def short_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    pread, preadv = os.pread, os.preadv
    patch_here(monkeypatch, os, "pread", lambda fd, size, at: pread(fd, min(size, SOME), at))
    patch_here(monkeypatch, os, "preadv", lambda fd, views, at: preadv(fd, [views[0][:SOME]], at))


STORE: list[Callable[[File], object]] = [
    lambda file: file.append(b"0123456789"),
    lambda file: file.append(memoryview(b"0123456789")),
    lambda file: file.append_parts([b"01234", b"", b"56789"]),
    lambda file: file.write_at(file.size, b"0123456789"),
]


@pytest.mark.parametrize("store", STORE)
def test_short_writes_are_ended(
    store: Callable[[File], object], file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.append(b"begin ")
    with monkeypatch.context() as patch:
        short_writes(patch)
        store(file)
    assert file.append(b" end") == 16
    assert file.read_at(0, 99) == b"begin 0123456789 end"


@pytest.mark.parametrize("store", STORE)
def test_a_full_disk_leaves_a_prefix_and_the_next_append_comes_after_it(
    store: Callable[[File], object], file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.append(b"begin ")
    with monkeypatch.context() as patch:
        short_writes(patch, room=7)
        with pytest.raises(OSError, match="No space") as caught:
            store(file)
    assert caught.value.filename == file.path
    assert file.size == 13
    assert file.append(b"!") == 13
    assert file.read_at(0, 99) == b"begin 0123456!"


def test_a_system_that_stores_nothing_is_not_asked_for_ever(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_here(monkeypatch, os, "pwrite", lambda fd, data, at: 0)
    with pytest.raises(OSError, match="stores nothing") as caught:
        file.append(b"abc")
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, file.path)


def test_short_reads_go_on_to_the_end(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    file.append(b"0123456789")
    short_reads(monkeypatch)
    assert file.read_at(1, 8) == b"12345678"
    assert file.read_at(1, 99) == b"123456789"
    buffer = bytearray(b"." * 12)
    assert file.read_into(1, buffer) == 9
    assert buffer == b"123456789..."


def test_systems_without_vectors_do_the_same(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.pwritev", raising=False)
    monkeypatch.delattr("os.preadv", raising=False)
    assert file.append_parts([b"01234", memoryview(b"56789")]) == 0
    buffer = bytearray(4)
    assert file.read_into(3, buffer) == 4
    assert buffer == b"3456"


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_that_cannot_sync_names_is_believed(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int) -> None:
        raise OSError(code, os.strerror(code))

    patch_here(monkeypatch, os, "fsync", refuse)
    RealFiles().sync_dir(str(tmp_path))


def test_a_directory_that_fails_to_sync_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    patch_here(monkeypatch, os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output") as caught:
        RealFiles().sync_dir(str(tmp_path))
    assert caught.value.filename == str(tmp_path)


@pytest.mark.parametrize("has_call", [True, False])
def test_drives_are_asked_where_they_can_be(
    has_call: bool, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def ask(fd: int, call: int) -> int:
        asked.append(call)
        if not has_call:
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        return 0

    monkeypatch.setattr(real_files, "_FULL_SYNC", 51)
    patch_here(monkeypatch, fcntl, "fcntl", ask)
    patch_here(monkeypatch, os, "fsync", lambda fd: asked.append("fsync"))
    file.sync()
    file.sync(data_only=True)
    RealFiles().sync_dir(parent_path(file.path))
    assert asked == ([51] * 3 if has_call else [51, "fsync"] * 3)


def test_a_system_that_cannot_allocate_goes_on_without(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.allocate(1000)  # finds the system's call, which other threads keep
    patch_here(monkeypatch, real_files, "_fallocate", lambda fd, size: errno.EOPNOTSUPP)
    file.allocate(1000)
    patch_here(monkeypatch, real_files, "_fallocate", lambda fd, size: errno.ENOSPC)
    with pytest.raises(OSError, match="No space") as caught:
        file.allocate(1000)
    assert caught.value.filename == file.path


HOLD = """
import sys
from moldau.runtime.real_files import RealFiles
lock = RealFiles().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.real
@pytest.mark.parametrize("end", ["kill", "exit"])
def test_a_lock_is_held_against_other_processes_until_they_end(end: str, tmp_path: Path) -> None:
    path = f"{tmp_path}/.lock"
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError) as caught:
            RealFiles().lock(path)
        assert caught.value.filename == path
        if end == "kill":
            holder.send_signal(signal.SIGKILL)
        else:
            holder.stdin.close()
        holder.wait()
    RealFiles().lock(path).release()


def test_a_lock_is_free_when_released_though_a_fork_has_a_copy(tmp_path: Path) -> None:
    lock = RealFiles().lock(f"{tmp_path}/.lock")
    assert isinstance(lock, real_files.RealFileLock)
    copy = os.dup(lock._fd)  # what a forked child would hold
    try:
        lock.release()
        RealFiles().lock(lock.path).release()
    finally:
        os.close(copy)


def test_a_pipe_is_read_to_its_end() -> None:
    with filled_pipe("a=\u0159\n".encode()) as path:
        assert RealFiles().read_text(path) == "a=\u0159\n"
    with filled_pipe(b"") as path:
        assert RealFiles().read_whole(path) == b""


def test_a_pipe_with_a_name_is_read_in_as_many_pieces_as_it_takes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    more_than_it_holds = b"0123456789" * 50_000
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(pipe.write_bytes, more_than_it_holds)
        assert RealFiles().read_whole(str(pipe)) == more_than_it_holds
        assert written.result() == len(more_than_it_holds)


def test_what_cannot_be_read_whole_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(IsADirectoryError) as caught:
        RealFiles().read_whole(str(tmp_path))
    assert caught.value.filename == str(tmp_path)

    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    patch_here(monkeypatch, builtins, "open", lambda *_: Broken())
    with pytest.raises(OSError, match="Input/output") as failed:
        RealFiles().read_whole("/a")
    assert failed.value.filename == "/a"
