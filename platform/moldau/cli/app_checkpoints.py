"""The checkpoint of a Streams app on Spark, as far as a command that deletes it knows it.

A pipeline reaches apps only as processes, so this is all that it knows, and `moldau streams reset`
shares it: the names of the files, that a driver holds `.lock`, and that `app.json` has the name of
the app.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moldau.runtime.files import Files

_FILES: Final = frozenset({".lock", "runs", "topics.json", "begin.json"})
"""Beside `app.json` and the directories of the sub-topologies, which have numbers."""
_MOVES: Final = {
    "left": "its app has moved to the embedded engine: move it back to a new checkpoint",
    "moving": "a move of its app was cut short: give `moldau streams move` again",
}


@contextmanager
def held_checkpoint(
    files: Files, path: str, app: str, refused: Callable[[str], Exception]
) -> Iterator[str | None]:
    """Yield the path of a checkpoint, which no driver can take in the block; None if it is not
    there. Raise what `refused` makes of the reason if a driver has it, or if it is not one that
    a reset of `app` may delete."""
    names = set(files.list(path)) if files.exists(path) else set[str]()
    if not names:
        yield None
        return
    if not _is_of(files, path, names, app):
        raise refused("it is no checkpoint of this app, so it is not deleted")
    for name, problem in _MOVES.items():
        if name in names:
            raise refused(problem)
    try:
        lock = files.lock(posixpath.join(path, ".lock"))
    except BlockingIOError:
        raise refused("a driver runs with it: stop that one first") from None
    try:
        yield path
    finally:
        lock.release()


def _is_of(files: Files, path: str, names: set[str], app: str) -> bool:
    """Whether it names the app, or is what a reset that was cut short has left."""
    if "app.json" not in names:
        return all(each in _FILES or each.isdecimal() for each in names)
    found: object = json.loads(files.read_text(posixpath.join(path, "app.json")))
    return isinstance(found, dict) and found.get("app") == app
