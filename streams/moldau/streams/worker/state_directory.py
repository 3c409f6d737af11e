"""A worker's own directory: DIR/APP/WORKER, with one RocksDB for each task under tasks/.

Invariants: only one process holds it at a time (another gets StateInUse); its file `member` gives
this worker a permanent name in its group, so that a restarted worker finds its old tasks, and with
them its stores, and the group need not wait until the old member is declared dead.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final, Self

from moldau.errors import ConfigError
from moldau.runtime import Runtime
from moldau.runtime.files import FileLock
from moldau.runtime.places import absolute_path
from moldau.streams.rocks import StateInUse
from moldau.streams.worker.tasks import OpenDatabase

GLOBAL: Final = "global"
TASKS: Final = "tasks"
DEFAULT: Final = "~/.local/state/moldau/streams"
_MEMBER: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class StateDirectory:
    """The directory of one worker. Opened by `open`, held until `close`."""

    def __init__(self, path: str, member: str, lock: FileLock) -> None:
        self.path = path
        self.member = member
        """The worker's name in its group."""
        self.open_database: OpenDatabase | None = None
        """The function that opens a task's database; None for RocksDB."""
        self._lock = lock

    @classmethod
    def open(cls, root: str, app: str, index: int, runtime: Runtime) -> Self:
        """Lock the directory and create what is missing. `root` is `state.dir`; "" is the default.

        Raise StateInUse if another worker holds it, ConfigError if the worker's name is unreadable.
        """
        files = runtime.files
        path = posixpath.join(absolute_path(root or DEFAULT), app, str(index))
        text = "another worker uses this state: stop it, or give this one its own --state"
        lock = files.lock_directory(path, ".lock", lambda: StateInUse(text, path=path))
        name = posixpath.join(path, "member")
        if not files.exists(name):
            files.write_text_atomic(name, f"{app}-{runtime.random.randbytes(6).hex()}-{index}\n")
        member = files.read_text(name).strip()
        if not _MEMBER.fullmatch(member):
            lock.release()
            raise ConfigError("the worker's name is unreadable: remove this file", file=name)
        return cls(path, member, lock)

    def is_copied(self) -> StateInUse:
        """Return the error for another worker that has the name which this directory keeps."""
        return StateInUse(
            "another worker of the app has the name that this state directory keeps: one of the "
            "two is a copy of the other: stop one of them, or delete the file `member` of the copy "
            "to give it a name of its own",
            path=self.path,
        )

    def of_task(self, task: str) -> str:
        """Return the path of the task's database."""
        return task_path(self.path, task)

    def of_tasks(self) -> str:
        """Return the path under which the databases of all tasks are."""
        return posixpath.join(self.path, TASKS)

    def of_globals(self) -> str:
        """Return the path of the database of the global tables."""
        return posixpath.join(self.path, GLOBAL)

    def close(self) -> None:
        """Release the directory, so that another worker can use it."""
        self._lock.release()


def task_path(worker: str, task: str) -> str:
    """Return the path of a task's database under a worker's directory."""
    return posixpath.join(worker, TASKS, task)
