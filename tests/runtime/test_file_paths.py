"""Odd paths: the simulated disk takes and refuses what the operating system takes and refuses.

Each call is made on both, in the same small tree, and compared: what it returns or raises (errno
and file name), and the names that are there afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from moldau.runtime.files import Files
from moldau.runtime.real_files import RealFiles
from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.incarnation import Incarnation

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it is Linux that is simulated")

LONG = "n" * 300

PATHS = [
    "",
    "/",
    "{root}/.",
    "{root}/..",
    "{root}/x/",
    "{root}/x/.",
    "{root}/x/..",
    "{root}/x/y",
    "{root}/./x",
    "{root}//x",
    "{root}/d/",
    "{root}/d/.",
    "{root}/d//e",
    "{root}/d/../x",
    "{root}/d/e/../../x",
    "{root}/../../../../../../../..{root}/x",
    "{root}/missing/",
    "{root}/missing/.",
    "{root}/missing/../x",
    "{root}/missing/x",
    f"{{root}}/{LONG}",
    f"{{root}}/{LONG}/x",
    f"{{root}}/missing/{LONG}",
    "{root}/" + "\u0159" * 127,
    "{root}/" + "\u0159" * 128,
    "{root}" + "/ab" * 1500,
    "{root}/nul\0",
    "{root}/\ud800",
    "{root}/\udc80",
]

CALLS: dict[str, Callable[[Files, str, str], object]] = {
    "open to read": lambda files, root, path: files.open(path).close(),
    "open to update": lambda files, root, path: files.open(path, "update").close(),
    "open to write": lambda files, root, path: files.open(path, "write").close(),
    "create": lambda files, root, path: files.open(path, "create").close(),
    "stat": lambda files, root, path: files.stat(path).is_dir,
    "exists": lambda files, root, path: files.exists(path),
    "list": lambda files, root, path: "x" in files.list(path),
    "make": lambda files, root, path: files.make_dirs(path),
    "remove": lambda files, root, path: files.remove(path),
    "remove directory": lambda files, root, path: files.remove_dir(path),
    "rename from": lambda files, root, path: files.rename(path, f"{root}/new"),
    "rename to": lambda files, root, path: files.rename(f"{root}/x", path),
    "rename directory to": lambda files, root, path: files.rename(f"{root}/d", path),
    "sync": lambda files, root, path: files.sync_dir(path),
    "lock": lambda files, root, path: files.lock(path).release(),
    "room": lambda files, root, path: files.free_bytes(path) > 0,
    "write text": lambda files, root, path: files.write_text_atomic(path, "text"),
}


def told(error: Exception) -> tuple[object, ...]:
    if isinstance(error, OSError):
        return type(error).__name__, error.errno, error.filename
    return (isinstance(error, ValueError),)


def simulated_tree(root: str) -> Files:
    files = SimulatedDisk(Random(1)).files(Incarnation("a"))
    files.make_dirs(f"{root}/d/e")
    files.open(f"{root}/x", "write").close()
    files.open(f"{root}/d/kept", "write").close()
    return files


def real_tree(root: str) -> Files:
    Path(root, "d/e").mkdir(parents=True)
    Path(root, "x").touch()
    Path(root, "d/kept").touch()
    return RealFiles()


def what_happens(files: Files, root: str, call: str, path: str) -> tuple[object, ...]:
    try:
        result: object = CALLS[call](files, root, path.replace("{root}", root))
    except (OSError, ValueError) as error:
        result = told(error)
    return result, files.list(root), files.list(f"{root}/d") if files.exists(f"{root}/d") else None


@pytest.mark.parametrize("call", CALLS)
def test_both_take_and_refuse_the_same_paths(call: str, tmp_path: Path) -> None:
    for number, path in enumerate(PATHS):
        root = f"{tmp_path}/{number}"
        simulated = what_happens(simulated_tree(root), root, call, path)
        assert simulated == what_happens(real_tree(root), root, call, path), path[:80]


def test_a_relative_path_starts_at_the_root_of_a_simulated_disk() -> None:
    files = SimulatedDisk(Random(1)).files(Incarnation("a"))
    files.make_dirs("a/b")
    files.write_text_atomic("a/b/../text", "here")
    assert files.read_text("/a/text") == "here"
    assert files.list(".") == files.list("..") == ["a"]
