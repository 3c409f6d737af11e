"""`moldau streams state`: the stores on this machine, with their sizes.

A store is opened for reading only, so that a running worker is not disturbed; what the worker has
not written to disk yet is not shown. A database that cannot be read hides no other one.
"""

from __future__ import annotations

import posixpath
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict, field

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.output import write_json, write_lines, write_table
from moldau.deferred import dataclass
from moldau.runtime.files import Files
from moldau.streams.rocks import ASIDE, StoreFailed, stores_on_disk
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


@dataclass(frozen=True, slots=True)
class Listing:
    """The stores under a state directory, and one line for each database that was left out."""

    stores: list[ListedStore] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


def list_state(arguments: Namespace, context: Context) -> int:
    """Print a line for each store. Fail if there are databases that cannot be read."""
    from moldau.runtime.places import absolute_path
    from moldau.runtime.real_files import RealFiles
    from moldau.streams.worker.state_directory import DEFAULT

    root = absolute_path(arguments.state or DEFAULT)
    files = RealFiles()
    if arguments.state and not files.exists(root):
        raise UsageError(f"there is no directory {root}")
    listing = stores_in(root, files, arguments.app)
    if arguments.json:
        write_json(context.out, [asdict(each) for each in listing.stores])
    else:
        _write_stores(context, listing.stores)
    notes = (*listing.set_aside, *listing.unreadable)
    write_lines(context.err, (f"moldau: {each}" for each in notes))
    return Exit.FAILED if listing.unreadable else Exit.DONE


def _write_stores(context: Context, stores: Sequence[ListedStore]) -> None:
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
        for each in stores
    ]
    head = ("APP", "WORKER", "TASK", "STORE", "KIND", "ROWS", "BYTES", "CHANGELOG")
    write_table(context.out, head, rows)


def stores_in(root: str, files: Files, app: str | None = None) -> Listing:
    """Return the stores under a state directory."""
    listing = Listing()
    for name in _names(root, files):
        if app is not None and name != app:
            continue
        for worker in _names(posixpath.join(root, name), files):
            for task, path in _databases(posixpath.join(root, name, worker), files):
                _add_stores(listing, name, worker, task, path)
    return listing


def _add_stores(listing: Listing, app: str, worker: str, task: str, path: str) -> None:
    if path.endswith(ASIDE):
        listing.set_aside.append(
            f"{path}: damaged files that a worker has set aside; delete them if you do not need "
            "them"
        )
        return
    try:
        listing.stores.extend(
            ListedStore(
                app,
                worker,
                task,
                store.name,
                store.kind,
                store.rows,
                store.size_bytes,
                store.offset,
            )
            for store in stores_on_disk(path)
        )
    except StoreFailed as error:
        listing.unreadable.append(f"app={app} worker={worker} task={task} cannot be read: {error}")


def _databases(worker: str, files: Files) -> Iterator[tuple[str, str]]:
    """Yield the name and the path of the databases of the global tables and of each task."""
    for name in _names(worker, files):
        if name.removesuffix(ASIDE) == GLOBAL:
            yield name, posixpath.join(worker, name)
    tasks = posixpath.join(worker, "tasks")
    for task in _names(tasks, files):
        yield task, posixpath.join(tasks, task)


def _names(path: str, files: Files) -> list[str]:
    if not files.exists(path) or not files.stat(path).is_dir:
        return []
    return [each for each in files.list(path) if files.stat(posixpath.join(path, each)).is_dir]
