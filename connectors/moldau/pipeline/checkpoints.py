"""The checkpoint of an app on Spark, as far as a pipeline knows it.

A pipeline reaches apps only as processes. Of a checkpoint it knows the names of the files, that
a driver holds `.lock`, and that `app.json` has the name of the app.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from moldau.connect.installed.plugins import resolved
from moldau.pipeline.data_directory import DataDirectory, PipelineFailed
from moldau.pipeline.pipeline import CHECKPOINT, App
from moldau.pipeline.references import provider_settings, references_in
from moldau.runtime.files import Files

_FILES: Final = frozenset({".lock", "runs", "topics.json", "begin.json"})
"""Beside `app.json` and the directories of the sub-topologies, which have numbers."""
_MOVES: Final = {
    "left": "its app has moved to the embedded engine: move it back to a new checkpoint",
    "moving": "a move of its app was cut short: give `moldau streams move` again",
}


def checkpoint_of(app: App, data: DataDirectory, directory: str) -> str:
    """Return the path of its checkpoint. Relative ones count from `directory`, that of the file."""
    given = {CHECKPOINT: app.settings[CHECKPOINT]} if app.settings.get(CHECKPOINT) else {}
    own, _ = resolved(given, provider_settings(references_in(given.values())))
    found = own.get(CHECKPOINT) or data.path("apps", app.name)
    return posixpath.join(directory, found.removeprefix("file://"))


@contextmanager
def held_checkpoint(files: Files, path: str, app: App) -> Iterator[str | None]:
    """Yield the path of a checkpoint, which no driver can take in the block; None if it is not
    there. Raise PipelineFailed if a driver has it, or if it is not one that `app` may delete."""
    names = set(files.list(path)) if files.exists(path) else set[str]()
    if not names:
        yield None
        return
    told = f"reset {app.name}: checkpoint={path}: "
    if not _is_of(files, path, names, app):
        raise PipelineFailed(f"{told}it is no checkpoint of this app, so it is not deleted")
    for name, problem in _MOVES.items():
        if name in names:
            raise PipelineFailed(told + problem)
    try:
        lock = files.lock(posixpath.join(path, ".lock"))
    except BlockingIOError:
        raise PipelineFailed(f"{told}a driver runs with it: stop that one first") from None
    try:
        yield path
    finally:
        lock.release()


def _is_of(files: Files, path: str, names: set[str], app: App) -> bool:
    """Whether it names the app, or is what a reset that was cut short has left."""
    if "app.json" not in names:
        return all(each in _FILES or each.isdecimal() for each in names)
    assert app.plan is not None
    found: object = json.loads(files.read_text(posixpath.join(path, "app.json")))
    return isinstance(found, dict) and found.get("app") == app.plan.app
