"""The stores of one task in an executor: a RocksDB on the machine, made again from the files.

Invariants: an attempt has its database for itself, because it takes it by renaming its directory;
the directory has the name of a version only while the database holds just that version. Without
such a directory, an attempt restores the version from its files. The name of an open one has the
id of its process, which Spark may kill at any time: what that leaves is removed by the next.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from moldau.runtime.files import Files
from moldau.runtime.places import is_alive, process_id
from moldau.streams.plan.plan import Program
from moldau.streams.rocks import RocksMemory, TaskDatabase
from moldau.streams.spark.changes import RecordingBacking, StoreChange, apply, decoded, encoded
from moldau.streams.spark.versions import Version, lacking
from moldau.streams.state.backing import Backing
from moldau.streams.worker.tasks import store_kinds

_OPEN = "open-"
_GONE = "gone-"


def drop_others(files: Files, local: str, driver: str) -> None:
    """Remove the databases of all drivers but this one from an app's directory on this machine,
    except those of a driver with an attempt that runs.

    Several processes of an executor may do so at once. A directory is renamed first, so that no
    attempt takes a database of which files are gone."""
    for name in files.list(local) if files.exists(local) else ():
        path = posixpath.join(local, name)
        with suppress(OSError):  # another process removes it, or uses it again
            if not name.startswith(_GONE):
                if name == driver or _is_open(files, path):
                    continue
                path = posixpath.join(local, f"{_GONE}{driver}-{name}")
                files.rename(posixpath.join(local, name), path)
            files.remove_tree(path)


def _is_open(files: Files, driver: str) -> bool:
    return any(
        _is_of_attempt(attempt)
        for task in files.list(driver)
        for attempt in files.list(posixpath.join(driver, task))
    )


def _is_of_attempt(name: str) -> bool:
    """Whether a directory is that of an attempt in a process that is alive."""
    pid = name.removeprefix(_OPEN).partition("-")[0]
    return name.startswith(_OPEN) and pid.isdecimal() and is_alive(int(pid))


class AttemptStores:
    """The stores of one attempt of one task."""

    def __init__(self, files: Files, kept: str, local: str, token: str) -> None:
        """`kept` is the directory of the files, `local` that of the databases on this machine."""
        self._files = files
        self._kept = kept
        self._local = local
        self._token = token
        self._path = posixpath.join(local, f"{_OPEN}{process_id()}-{token}")
        self._database: TaskDatabase | None = None
        self._changes: list[StoreChange] = []
        self._plain: list[Backing] = []
        self.backings: Mapping[str, Backing] = {}
        self.is_restored = False
        """Whether the version was read from its files."""

    def open(self, program: Program, version: Version, memory: RocksMemory) -> Self:
        """Open the stores at a version."""
        self._files.make_dirs(self._local)
        is_here = self._take(version.token)
        kinds = store_kinds(program.stores)
        self._database = TaskDatabase.open(self._path, kinds, memory, self._files)
        self._plain = [self._database.backing(store.name) for store in program.stores]
        if not is_here:
            self._restore(version)
        self.backings = {
            store.name: RecordingBacking(self._plain[at], at, self._changes)
            for at, store in enumerate(program.stores)
        }
        return self

    def write(self, version: Version, times: str) -> Version:
        """Write what has changed beside the checkpoint; return the version that this makes.

        Without stores it writes nothing."""
        if self._database is None:
            return version.after(self._token, 0, times, is_snapshot=False)
        database, changes = self._database, self._changes
        is_snapshot = version.wants_snapshot()
        database.commit({})
        if is_snapshot:
            changes = [
                StoreChange(at, key, value)
                for at, backing in enumerate(self._plain)
                for key, value in backing.scan(b"", None)
            ]
        data = encoded(changes) if changes or is_snapshot else b""
        found = version.after(self._token, len(data), times, is_snapshot=is_snapshot)
        if data:
            self._write_file(found.files[-1], data)
        return found

    def check(self, version: Version) -> None:
        """Raise StateError if the version's newest file is not there: another attempt has written
        and recorded it, and a checkpoint that was copied before lacks it."""
        for name in version.files[-1:]:
            if not self._files.exists(posixpath.join(self._kept, name)):
                raise lacking(self._kept, name)

    def keep(self) -> None:
        """Leave the database for the next batch on this machine: the version is committed."""
        if self._database is not None:
            self._close()
            self._files.rename(self._path, posixpath.join(self._local, self._token))

    def drop(self) -> None:
        """Forget the attempt, unless it is kept."""
        if self._database is not None:
            self._close()
            self._files.remove_tree(self._path)

    def _take(self, token: str) -> bool:
        """Take the database of a version, if it is on this machine."""
        if not token:
            return False
        try:
            self._files.rename(posixpath.join(self._local, token), self._path)
        except FileNotFoundError:
            return False
        return True

    def _restore(self, version: Version) -> None:
        for name in self._files.list(self._local):
            if not _is_of_attempt(name):
                self._files.remove_tree(posixpath.join(self._local, name))
        assert self._database is not None
        for name in version.files:
            try:
                data = self._files.read_whole(posixpath.join(self._kept, name))
            except FileNotFoundError:
                raise lacking(self._kept, name) from None
            apply(decoded(data, name), self._plain)
            self._database.commit({})
        self.is_restored = bool(version.files)

    def _write_file(self, name: str, data: bytes) -> None:
        self._files.make_dirs(self._kept)
        with self._files.open(posixpath.join(self._kept, name), "create") as file:
            file.append(data)
            file.sync()
        self._files.sync_dir(self._kept)

    def _close(self) -> None:
        database, self._database = self._database, None
        assert database is not None
        self._plain = []
        self.backings = {}
        database.close()
