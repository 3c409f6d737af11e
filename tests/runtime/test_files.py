"""One suite for `Files`: the real operating system and the simulated disk must not differ."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from struct import pack, unpack_from

import pytest

from moldau.runtime.files import File, Files
from moldau.runtime.real_files import RealFiles
from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.incarnation import Incarnation
from tests.runtime.one_thread import patch_here


@pytest.fixture(params=["real", "simulated"])
def files(request: pytest.FixtureRequest) -> Files:
    if request.param == "real":
        return RealFiles()
    return SimulatedDisk(Random(1)).files(Incarnation("a"))


@pytest.fixture
def root(files: Files) -> Iterator[str]:
    path = files.temporary_dir()
    yield path
    files.remove_tree(path)


@pytest.fixture
def path(root: str) -> str:
    return posixpath.join(root, "00000000000000000000.log")


@pytest.fixture
def file(files: Files, path: str) -> Iterator[File]:
    with files.open(path, "create") as file:
        yield file


def refusal(act: Callable[[], object]) -> tuple[int | None, str]:
    with pytest.raises(OSError, match="Errno") as caught:
        act()
    return caught.value.errno, caught.value.filename


def test_appends_return_where_they_lie(file: File) -> None:
    assert file.append(b"abc") == 0
    assert file.append_parts([b"de", bytearray(b"f"), memoryview(b"gh")]) == 3
    assert file.append(b"") == 8
    assert file.append_parts([]) == 8
    assert file.size == 8
    assert file.read_at(0, 8) == b"abcdefgh"


def test_more_parts_than_one_call_takes_are_all_stored(file: File) -> None:
    parts = [b"%04d" % number for number in range(3000)]
    file.append(b"head")
    assert file.append_parts(parts) == 4
    assert file.read_at(4, 12_000) == b"".join(parts)
    assert file.append(b"tail") == 12_004


def test_reads_are_short_only_at_the_end(file: File) -> None:
    file.append(b"0123456789")
    assert file.read_at(4, 3) == b"456"
    assert file.read_at(8, 100) == b"89"
    assert file.read_at(10, 1) == b""
    assert file.read_at(500, 1) == b""
    assert file.read_at(3, 0) == b""


def test_reads_fill_the_callers_buffer(file: File) -> None:
    file.append(b"0123456789")
    buffer = bytearray(b"......")
    assert file.read_into(2, buffer) == 6
    assert buffer == b"234567"
    assert file.read_into(7, memoryview(buffer)[1:5]) == 3
    assert buffer == b"278967"
    assert file.read_into(10, buffer) == 0
    assert buffer == b"278967"


def test_a_write_in_the_middle_keeps_the_rest(file: File) -> None:
    file.append(b"0123456789")
    file.write_at(3, b"xyz")
    assert file.read_at(0, 100) == b"012xyz6789"
    file.write_at(8, memoryview(b"ABCD"))
    assert file.read_at(0, 100) == b"012xyz67ABCD"
    assert file.append(b"!") == 12


def test_a_write_beyond_the_end_leaves_zeros(file: File) -> None:
    file.append(b"ab")
    file.write_at(5, b"c")
    assert file.read_at(0, 100) == b"ab\0\0\0c"
    assert file.append(b"d") == 6


def test_no_data_changes_nothing_wherever_it_lies(files: Files, file: File) -> None:
    file.append(b"abc")
    file.write_at(100, b"")
    assert file.size == files.stat(file.path).size_bytes == 3
    with closing(file.map(3)):
        file.write_at(100, memoryview(b""))
    assert file.append(b"d") == 3


def test_truncate_cuts_and_grows_over_zeros(file: File) -> None:
    file.append(b"0123456789" * 1000)
    file.truncate(4)
    assert file.size == 4
    file.truncate(7)
    assert file.read_at(0, 100) == b"0123\0\0\0"
    assert file.append(b"x") == 7
    file.truncate(0)
    assert file.read_at(0, 100) == b""


def test_allocated_space_is_not_size(files: Files, file: File) -> None:
    file.append(b"abc")
    file.allocate(100_000)
    assert file.size == 3
    assert file.append(b"def") == 3
    assert files.stat(file.path).size_bytes == 6
    file.truncate(6)
    assert files.stat(file.path).size_bytes == 6


def test_allocation_takes_room_on_the_disk(files: Files, file: File) -> None:
    file.append(b"abc")
    before = files.stat(file.path).allocated_bytes
    file.allocate(1_000_000)
    after = files.stat(file.path).allocated_bytes
    if after == before:
        pytest.skip("this file system cannot allocate")
    assert after >= 1_000_000


def test_another_handle_sees_what_was_written(files: Files, file: File) -> None:
    file.append(b"abc")
    with files.open(file.path) as reader:
        assert reader.read_at(0, 10) == b"abc"
        file.append(b"def")
        assert reader.size == 6
        assert reader.read_at(3, 10) == b"def"


def test_modes_ask_for_what_must_and_must_not_exist(files: Files, path: str) -> None:
    assert refusal(lambda: files.open(path, "read")) == (errno.ENOENT, path)
    assert refusal(lambda: files.open(path, "update")) == (errno.ENOENT, path)
    files.open(path, "write").close()
    with files.open(path, "update") as file:
        file.append(b"abc")
    with files.open(path, "write") as file:
        assert file.append(b"d") == 3
    assert refusal(lambda: files.open(path, "create")) == (errno.EEXIST, path)


def test_a_reader_cannot_change_anything(files: Files, file: File) -> None:
    file.append(b"abc")
    with files.open(file.path, "read") as reader:
        for change in (
            lambda: reader.append(b"x"),
            lambda: reader.append_parts([b"x", b"y"]),
            lambda: reader.write_at(0, b"x"),
            lambda: reader.truncate(0),
            lambda: reader.allocate(10),
            lambda: reader.map(3, writable=True),
        ):
            assert refusal(change) == (errno.EBADF, file.path)
    assert file.read_at(0, 10) == b"abc"


def test_a_closed_file_answers_nothing(file: File) -> None:
    file.append(b"abc")
    file.close()
    file.close()
    for act in (
        lambda: file.size,
        lambda: file.read_at(0, 1),
        lambda: file.read_into(0, bytearray(1)),
        lambda: file.append(b"x"),
        lambda: file.write_at(0, b"x"),
        lambda: file.truncate(0),
        lambda: file.sync(),
        lambda: file.sync(data_only=True),
        lambda: file.allocate(10),
        lambda: file.map(1),
        lambda: file.fileno(),
    ):
        assert refusal(act) == (errno.EBADF, file.path)


@pytest.mark.parametrize("position", [-1, -1000])
def test_negative_positions_are_refused(file: File, position: int) -> None:
    file.append(b"abc")
    assert refusal(lambda: file.read_at(position, 1)) == (errno.EINVAL, file.path)
    assert refusal(lambda: file.read_into(position, bytearray(1))) == (errno.EINVAL, file.path)
    assert refusal(lambda: file.write_at(position, b"x")) == (errno.EINVAL, file.path)
    assert refusal(lambda: file.truncate(position)) == (errno.EINVAL, file.path)
    assert file.read_at(0, 10) == b"abc"


def test_sync_takes_files_and_directories(files: Files, root: str, file: File) -> None:
    file.append(b"abc")
    file.sync()
    file.sync(data_only=True)
    files.sync_dir(root)
    assert refusal(lambda: files.sync_dir(root + "/gone")) == (errno.ENOENT, root + "/gone")
    assert refusal(lambda: files.sync_dir(file.path)) == (errno.ENOTDIR, file.path)


def test_a_mapping_and_the_file_show_the_same_bytes(file: File) -> None:
    file.truncate(64)
    mapped = file.map(32, writable=True)
    mapped.write(8, pack(">q", 77))
    assert unpack_from(">q", mapped.buffer, 8) == (77,)
    assert unpack_from(">q", file.read_at(8, 8)) == (77,)
    file.write_at(0, b"12345678")
    assert bytes(mapped.buffer[:8]) == b"12345678"
    assert len(mapped.buffer) == 32
    mapped.sync()
    mapped.close()
    mapped.close()
    assert unpack_from(">q", file.read_at(8, 8)) == (77,)


def test_a_mapping_is_written_only_through_write(file: File) -> None:
    file.truncate(8)
    mapped = file.map(8, writable=True)
    assert mapped.buffer.readonly
    for position, size in ((-1, 1), (8, 1), (4, 5)):
        act = partial(mapped.write, position, bytes(size))
        assert refusal(act) == (errno.EINVAL, file.path)
    mapped.write(4, b"abcd")
    mapped.close()
    assert file.read_at(0, 100) == b"\0\0\0\0abcd"
    assert refusal(lambda: mapped.write(0, b"x"))[0] == errno.EBADF
    assert refusal(mapped.sync)[0] == errno.EBADF


def test_a_read_only_mapping_refuses_writes(files: Files, file: File) -> None:
    file.append(b"abcd")
    with files.open(file.path) as reader:
        mapped = reader.map(4)
        assert bytes(mapped.buffer) == b"abcd"
        assert refusal(lambda: mapped.write(0, b"x")) == (errno.EBADF, file.path)
        mapped.close()


def test_a_mapping_fixes_the_size(file: File) -> None:
    file.append(b"abcd")
    first, second = file.map(4), file.map(2)
    first.close()
    for act in (
        lambda: file.append(b"x"),
        lambda: file.truncate(1),
        lambda: file.truncate(9),
        lambda: file.write_at(3, b"xy"),
    ):
        assert refusal(act) == (errno.EBUSY, file.path)
    file.write_at(2, b"xy")
    second.close()
    file.append(b"z")
    assert file.read_at(0, 10) == b"abxyz"


def test_a_mapping_stays_while_there_are_slices_of_it(file: File) -> None:
    file.append(b"abcd")
    mapped = file.map(4)
    piece = mapped.buffer[1:3]
    with pytest.raises(BufferError):
        mapped.close()
    assert bytes(piece) == b"bc"
    assert refusal(lambda: file.append(b"x")) == (errno.EBUSY, file.path)
    piece.release()
    mapped.close()
    file.append(b"x")


@pytest.mark.parametrize("size", [-1, 0, 5])
def test_a_mapping_lies_within_the_file(file: File, size: int) -> None:
    file.append(b"abcd")
    assert refusal(lambda: file.map(size)) == (errno.EINVAL, file.path)


def test_a_mapping_outlives_the_handle(files: Files, path: str) -> None:
    with files.open(path, "create") as file:
        file.append(b"abcd")
        mapped = file.map(4, writable=True)
    mapped.write(0, b"xy")
    mapped.sync()
    mapped.close()
    with files.open(path) as file:
        assert file.read_at(0, 10) == b"xycd"


def test_names_are_listed_in_order(files: Files, root: str) -> None:
    assert files.list(root) == []
    for name in ("b", "a", "c"):
        files.open(f"{root}/{name}", "create").close()
    files.make_dirs(f"{root}/aa/deep/deeper")
    assert files.list(root) == ["a", "aa", "b", "c"]
    assert files.list(f"{root}/aa") == ["deep"]
    assert refusal(lambda: files.list(f"{root}/x")) == (errno.ENOENT, f"{root}/x")
    assert refusal(lambda: files.list(f"{root}/a")) == (errno.ENOTDIR, f"{root}/a")


def test_stat_tells_files_from_directories(files: Files, root: str, file: File) -> None:
    file.append(b"abc")
    assert files.stat(file.path).size_bytes == 3
    assert not files.stat(file.path).is_dir
    assert files.stat(root).is_dir
    assert refusal(lambda: files.stat(root + "/x")) == (errno.ENOENT, root + "/x")
    assert files.exists(root)
    assert files.exists(file.path)
    assert not files.exists(root + "/x")
    assert not files.exists(file.path + "/x")


def test_directories_are_made_once(files: Files, root: str, file: File) -> None:
    files.make_dirs(f"{root}/a/b")
    files.make_dirs(f"{root}/a/b")
    assert files.stat(f"{root}/a/b").is_dir
    assert refusal(lambda: files.make_dirs(file.path)) == (errno.EEXIST, file.path)
    assert refusal(lambda: files.make_dirs(file.path + "/x"))[0] == errno.ENOTDIR


def test_rename_replaces_and_keeps_handles(files: Files, root: str) -> None:
    with files.open(f"{root}/old", "create") as old, files.open(f"{root}/new", "create") as new:
        old.append(b"old")
        new.append(b"new")
        files.rename(f"{root}/old", f"{root}/new")
        assert files.list(root) == ["new"]
        assert files.read_text(f"{root}/new") == "old"
        old.append(b"er")
        assert files.read_text(f"{root}/new") == "older"
        assert new.read_at(0, 10) == b"new"


def test_rename_moves_directories_within_one(files: Files, root: str) -> None:
    files.make_dirs(f"{root}/t-0")
    files.open(f"{root}/t-0/x", "create").close()
    files.rename(f"{root}/t-0", f"{root}/t-0.delete")
    assert files.list(f"{root}/t-0.delete") == ["x"]
    assert not files.exists(f"{root}/t-0")


def test_renames_that_make_no_sense_are_refused(files: Files, root: str) -> None:
    files.make_dirs(f"{root}/full/x")
    files.make_dirs(f"{root}/empty")
    files.open(f"{root}/file", "create").close()
    for source, target, code in (
        ("gone", "x", errno.ENOENT),
        ("file", "empty/file", errno.EXDEV),
        ("file", "empty", errno.EISDIR),
        ("empty", "file", errno.ENOTDIR),
        ("empty", "full", errno.ENOTEMPTY),
    ):
        act = partial(files.rename, f"{root}/{source}", f"{root}/{target}")
        assert refusal(act)[0] == code, (source, target)
    assert files.list(root) == ["empty", "file", "full"]
    files.rename(f"{root}/file", f"{root}/file")
    assert files.exists(f"{root}/file")


def test_removed_files_serve_their_handles(files: Files, root: str, file: File) -> None:
    file.append(b"abc")
    files.remove(file.path)
    assert files.list(root) == []
    assert file.read_at(0, 10) == b"abc"
    file.append(b"d")
    file.sync()
    assert file.read_at(0, 10) == b"abcd"
    assert refusal(lambda: files.remove(file.path)) == (errno.ENOENT, file.path)


def test_only_empty_directories_are_removed(files: Files, root: str) -> None:
    files.make_dirs(f"{root}/a/b")
    assert refusal(lambda: files.remove_dir(f"{root}/a"))[0] == errno.ENOTEMPTY
    files.remove_dir(f"{root}/a/b")
    files.remove_dir(f"{root}/a")
    assert files.list(root) == []


def test_a_tree_is_removed_whole(files: Files, root: str) -> None:
    files.make_dirs(f"{root}/a/b/c")
    for name in ("a/1", "a/b/2", "a/b/c/3"):
        files.open(f"{root}/{name}", "create").close()
    files.remove_tree(f"{root}/a")
    files.remove_tree(f"{root}/a")
    assert files.list(root) == []


def test_paths_through_files_and_to_directories_are_refused(
    files: Files, root: str, file: File
) -> None:
    assert refusal(lambda: files.open(root))[0] == errno.EISDIR
    assert refusal(lambda: files.open(root, "update"))[0] == errno.EISDIR
    assert refusal(lambda: files.open(file.path + "/x", "write"))[0] == errno.ENOTDIR
    assert refusal(lambda: files.open(root + "/x/y", "write"))[0] == errno.ENOENT


def test_a_lock_has_one_holder(files: Files, root: str) -> None:
    path = f"{root}/.lock"
    with files.lock(path) as lock:
        assert refusal(lambda: files.lock(path)) == (errno.EAGAIN, path)
        with pytest.raises(BlockingIOError):
            files.lock(path)
        assert lock.path == path
    lock.release()
    files.lock(path).release()
    assert files.exists(path)


def test_text_is_replaced_as_a_whole(files: Files, root: str) -> None:
    path = f"{root}/leader-epoch-checkpoint"
    with files.open(path + ".tmp", "create") as left_behind:
        left_behind.append(b"a longer text than the next, left by a crash")
    files.write_text_atomic(path, "0\n1\n")
    assert files.read_text(path) == "0\n1\n"
    files.write_text_atomic(path, "\u0159eka")
    assert files.read_text(path) == "\u0159eka"
    assert files.list(root) == ["leader-epoch-checkpoint"]


def test_text_that_is_not_utf8_is_refused(files: Files, file: File) -> None:
    file.append(b"\xff\xfe")
    with pytest.raises(UnicodeDecodeError):
        files.read_text(file.path)


def test_there_is_room(files: Files, root: str) -> None:
    assert 0 < files.free_bytes(root) <= files.total_bytes(root)


def test_a_directory_is_made_once_and_only_in_another(files: Files, root: str) -> None:
    files.make_dir(f"{root}/t-0")
    assert files.stat(f"{root}/t-0").is_dir
    with pytest.raises(FileExistsError):
        files.make_dir(f"{root}/t-0")
    with pytest.raises(FileNotFoundError):
        files.make_dir(f"{root}/missing/t-0")


def test_only_a_real_file_has_a_descriptor(files: Files, file: File) -> None:
    descriptor = file.fileno()
    assert (descriptor is not None) == isinstance(files, RealFiles)


def test_temporary_directories_are_apart(files: Files) -> None:
    first, second = files.temporary_dir("x-"), files.temporary_dir("x-")
    assert first != second
    assert posixpath.basename(first).startswith("x-")
    assert files.list(first) == []
    files.remove_dir(first)
    files.remove_dir(second)


def test_remove_tree_does_not_follow_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    RealFiles().remove_tree(str(inside))
    assert (outside / "kept").exists()
    assert not inside.exists()


def test_views_of_larger_items_are_stored_whole(files: Files, path: str) -> None:
    four = memoryview(b"abcdefgh").cast("I")
    with files.open(path, "write") as file:
        assert file.append(four) == 0
        assert file.append(b"!") == 8
        assert file.append_parts([four, b"?", four]) == 9
        file.write_at(26, four)
        assert file.size == 34
        assert file.append(b".") == 34
        found = bytearray(8)
        assert file.read_into(0, memoryview(found).cast("I")) == 8
        assert bytes(found) == b"abcdefgh"
        assert file.read_at(0, 99) == b"abcdefgh!abcdefgh?abcdefghabcdefgh."
        with closing(file.map(35, writable=True)) as mapped:
            mapped.write(1, four)
            assert bytes(mapped.buffer[:10]) == b"aabcdefgha"


def test_memory_with_gaps_is_refused(file: File) -> None:
    gaps = memoryview(b"abcdefgh")[::2]
    for act in (lambda: file.append(gaps), lambda: file.write_at(0, gaps)):
        with pytest.raises(BufferError):
            act()
    assert file.size == 0


def test_directories_are_made_deeper_than_python_recurses(files: Files, root: str) -> None:
    path = root + "/d" * 1200
    files.make_dirs(path)
    assert files.stat(path).is_dir
    for _ in range(1200):
        files.remove_dir(path)
        path = posixpath.dirname(path)


class Watched(RealFiles):
    """Notes which directories are synced; one of them may not be read."""

    def __init__(self, unreadable: str = "") -> None:
        self.synced: list[str] = []
        self.unreadable = unreadable

    def sync_dir(self, path: str) -> None:
        self.synced.append(path)
        if path == self.unreadable:
            raise PermissionError(errno.EACCES, "Permission denied", path)


def test_the_name_is_synced_where_it_is_though_a_slash_follows(tmp_path: Path) -> None:
    files = Watched()
    files.make_dirs(f"{tmp_path}/a/b/")
    assert files.synced == [str(tmp_path), f"{tmp_path}/a"]
    files.make_dirs(f"{tmp_path}/a/b/")
    assert files.synced[2:] == [f"{tmp_path}/a"]


def test_a_directory_below_one_that_is_not_ours_needs_no_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Watched(unreadable=str(tmp_path))
    with pytest.raises(PermissionError):
        files.make_dirs(f"{tmp_path}/a")
    patch_here(monkeypatch, os, "access", lambda path, mode: path != str(tmp_path))
    files.make_dirs(f"{tmp_path}/a")


def test_a_file_moves_within_its_directory_however_that_is_called(files: Files, root: str) -> None:
    files.make_dirs(f"{root}/d")
    files.open(f"{root}/d/a", "create").close()
    files.rename(f"{root}/d//a", f"{root}/./d/b")
    files.rename(f"{root}/d/b", f"{root}/d/../d/c")
    assert files.list(f"{root}/d") == ["c"]


def test_text_needs_the_name_of_a_file(files: Files, root: str) -> None:
    files.make_dirs(f"{root}/d")
    for path, code in ((f"{root}/d/", errno.EISDIR), ("", errno.ENOENT)):
        assert refusal(partial(files.write_text_atomic, path, "text")) == (code, path)
    assert files.list(f"{root}/d") == []
