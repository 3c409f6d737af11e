"""Files that fail wherever a test says so, and work elsewhere: one disk of several is broken."""

from __future__ import annotations

import errno
import os
from typing import Any, Final, cast

from moldau.runtime.files import Files

CHANGING: Final = frozenset(
    ("append", "append_parts", "write_at", "truncate", "allocate", "sync", "write", "map")
)
"""Of an open file: what fails."""
OF_NAMES: Final = frozenset(
    ("make_dirs", "remove", "remove_dir", "remove_tree", "rename", "sync_dir", "write_text_atomic")
)


class BrokenFiles:
    """Stands before a node's files. What a name in `broken` is part of cannot be changed."""

    def __init__(self, files: Files, code: int = errno.EIO) -> None:
        self.broken: set[str] = set()
        self.breaks_once: set[str] = set()
        """The same for one call each."""
        self._files = files
        self._code = code

    def as_files(self) -> Files:
        """For a runtime."""
        return cast(Files, self)

    def refuse(self, path: str) -> None:
        """Raises when it is broken."""
        for each in self.breaks_once:
            if each in path:
                self.breaks_once.remove(each)
                raise OSError(self._code, os.strerror(self._code), path)
        if any(each in path for each in self.broken):
            raise OSError(self._code, os.strerror(self._code), path)

    def open(self, path: str, mode: Any = "read") -> Any:
        if mode in ("write", "create"):
            self.refuse(path)
        return _BrokenFile(self, self._files.open(path, mode))

    def write_text_atomic(self, path: str, text: str) -> None:
        self.refuse(path)
        self._files.write_text_atomic(path, text)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._files, name)
        return _checked(self, found) if name in OF_NAMES else found


def _checked(files: BrokenFiles, call: Any) -> Any:
    def checked(path: str, *more: Any, **named: Any) -> Any:
        files.refuse(path)
        return call(path, *more, **named)

    return checked


class _BrokenFile:
    def __init__(self, files: BrokenFiles, file: Any) -> None:
        self._files = files
        self._file = file

    def __getattr__(self, name: str) -> Any:
        if name in CHANGING:
            self._files.refuse(self._file.path)
        return getattr(self._file, name)

    def __enter__(self) -> _BrokenFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
