"""`moldau streams state`: the stores on this machine, with their sizes.

A store is opened for reading only, so that a running worker is not disturbed; what the worker has
not written to disk yet is not shown.
"""

from __future__ import annotations

import posixpath
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from moldau.cli.command import Context, Exit
from moldau.cli.output import write_json, write_table
from moldau.runtime.files import Files
from moldau.streams.worker.state_directory import GLOBAL


@dataclass(frozen=True, slots=True)
class ListedStore:
    """One store of one task."""

    app: str
    worker: str
    task: str
    store: str
    kind: str
    rows: int
    size_bytes: int
    changelog_offset: int


def list_state(arguments: Namespace, context: Context) -> int:
    """Print a line for each store."""
    from moldau.runtime.places import absolute_path
    from moldau.runtime.real_files import RealFiles
    from moldau.streams.worker.state_directory import DEFAULT

    root = absolute_path(arguments.state or DEFAULT)
    found = list(stores_in(root, RealFiles(), arguments.app))
    if arguments.json:
        write_json(context.out, [asdict(each) for each in found])
        return Exit.DONE
    rows = [
        (
            each.app,
            each.worker,
            each.task,
            each.store,
            each.kind,
            f"{each.rows:,}",
            f"{each.size_bytes:,}",
            str(each.changelog_offset) if each.changelog_offset >= 0 else "-",
        )
        for each in found
    ]
    head = ("APP", "WORKER", "TASK", "STORE", "KIND", "ROWS", "BYTES", "CHANGELOG")
    write_table(context.out, head, rows)
    return Exit.DONE


def stores_in(root: str, files: Files, app: str | None = None) -> Iterator[ListedStore]:
    """Yield the stores under a state directory."""
    from moldau.streams.rocks import stores_on_disk

    for name in _names(root, files):
        if app is not None and name != app:
            continue
        for worker in _names(posixpath.join(root, name), files):
            for task, path in _databases(posixpath.join(root, name, worker), files):
                for store in stores_on_disk(path):
                    yield ListedStore(
                        name,
                        worker,
                        task,
                        store.name,
                        store.kind,
                        store.rows,
                        store.size_bytes,
                        store.offset,
                    )


def _databases(worker: str, files: Files) -> Iterator[tuple[str, str]]:
    """Yield the name and the path of the databases of the global tables and of each task."""
    for name in _names(worker, files):
        if name == GLOBAL:
            yield name, posixpath.join(worker, name)
    tasks = posixpath.join(worker, "tasks")
    for task in _names(tasks, files):
        yield task, posixpath.join(tasks, task)


def _names(path: str, files: Files) -> list[str]:
    if not files.exists(path) or not files.stat(path).is_dir:
        return []
    return [each for each in files.list(path) if files.stat(posixpath.join(path, each)).is_dir]
