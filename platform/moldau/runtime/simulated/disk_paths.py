"""Interprets paths on the simulated disk as Linux does, with its special cases.

`.` and `..` are followed and not removed from the text, so `file/..` and `missing/..` fail; a final
slash requires a directory; a relative path starts at the root, as the working directory. NUL and
lone surrogates are a ValueError, which the real calls raise before they reach the kernel.
"""

from __future__ import annotations

import errno
from functools import lru_cache
from typing import NamedTuple

from moldau.runtime.simulated.disk_faults import disk_error
from moldau.runtime.simulated.disk_names import Directory, Node

NAME_BYTES_MAX = 255
PATH_BYTES_MAX = 4095

NOT_NAMES = ("", ".", "..")
"""Ends of paths that lead to a directory but are not a name in it; the first is the root's."""


class Path(NamedTuple):
    """A parsed path: the parts above the last one, the last one, and whether a slash follows."""

    above: tuple[str, ...]
    last: str
    asks_for_dir: bool


class ParentAndName(NamedTuple):
    """The place where a name is, or could be created."""

    directory: Directory
    name: str
    asks_for_dir: bool


@lru_cache(maxsize=4096)
def take_apart(path: str) -> Path:
    """Parse a path. Raise ENOENT if it is empty, ENAMETOOLONG if it is too long for any call."""
    size = len(path.encode("utf-8", "surrogateescape"))
    if "\0" in path:
        raise ValueError("embedded null byte")
    if not size:
        raise disk_error(errno.ENOENT, path)
    if size > PATH_BYTES_MAX:
        raise disk_error(errno.ENAMETOOLONG, path)
    *above, last = [piece for piece in path.split("/") if piece] or [""]
    return Path(
        tuple(piece for piece in above if piece != "."), last, last != "" and path.endswith("/")
    )


def find(root: Directory, path: str) -> Node:
    """Return the file or directory of the path. Raise ENOENT, ENOTDIR or ENAMETOOLONG."""
    above, last, asks_for_dir = take_apart(path)
    if last in NOT_NAMES:
        return _walk(root, (*above, last) if last == ".." else above, path)
    directory = _walk(root, above, path)
    node = directory.entries.get(last)
    if node is None:
        raise missing(last, path)
    if asks_for_dir and not isinstance(node, Directory):
        raise disk_error(errno.ENOTDIR, path)
    return node


def place(root: Directory, path: str) -> ParentAndName:
    """Return the directory for the path's last part, which need not exist."""
    above, last, asks_for_dir = take_apart(path)
    return ParentAndName(_walk(root, above, path), last, asks_for_dir)


def missing(name: str, path: str) -> OSError:
    """Return the error for a missing name: it does not exist, or is too long to exist."""
    is_long = len(name.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX
    return disk_error(errno.ENAMETOOLONG if is_long else errno.ENOENT, path)


def _walk(root: Directory, names: tuple[str, ...], path: str) -> Directory:
    directory = root
    passed: list[Directory] = []
    for name in names:
        if name == "..":
            directory = passed.pop() if passed else root
            continue
        node = directory.entries.get(name)
        if node is None:
            raise missing(name, path)
        if not isinstance(node, Directory):
            raise disk_error(errno.ENOTDIR, path)
        passed.append(directory)
        directory = node
    return directory
