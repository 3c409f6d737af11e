"""The directory of an app's state on Spark: its topology, the committed versions, one driver.

    DIR/.lock, DIR/app.json, DIR/runs
    DIR/left               the app has moved to the embedded engine
    DIR/0/moved.json       where the app began, if it was moved here
    DIR/0/query/           Spark's own checkpoint of sub-topology 0
    DIR/0/commits/BATCH    the versions of its tasks after a batch
    DIR/0/state/0_PARTITION/TOKEN.delta, TOKEN.snapshot

Invariants: one driver holds the directory at a time; a commit file is written whole, after the
files that it names. The directory must be one that every executor reaches under the same path.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final, Self

from moldau.runtime.files import FileLock, Files
from moldau.runtime.places import absolute_path
from moldau.streams.plan.plan import Plan
from moldau.streams.problems import StreamsError, TopologyError
from moldau.streams.spark.versions import KEPT_BATCHES, Version, from_json, stale_files, to_json

_DIGITS: Final = 12
_LEFT: Final = "left"


class Checkpoint:
    """The directory, held by one driver from `open` to `close`."""

    def __init__(self, files: Files, path: str, lock: FileLock, run: int, made_ms: int) -> None:
        self.files = files
        self.path = path
        self.id = str(made_ms)
        """The time when it was made. Batches of another checkpoint are other batches."""
        self.run = run
        """How many drivers have held the directory, with this one."""
        self._lock = lock

    @classmethod
    def open(cls, files: Files, given: str, plan: Plan, now_ms: int) -> Self:
        """Hold the directory for this app. Raise StreamsError if another driver holds it,
        TopologyError if it is of another app or topology."""
        path = _local_path(given)
        files.make_dirs(path)
        try:
            lock = files.lock(posixpath.join(path, ".lock"))
        except BlockingIOError:
            raise StreamsError(
                f"checkpoint={path}: another driver runs with it: stop that one, or give this app "
                "another --checkpoint"
            ) from None
        with ExitStack() as on_failure:
            on_failure.callback(lock.release)
            if files.exists(posixpath.join(path, _LEFT)):
                raise StreamsError(
                    f"checkpoint={path}: its app has moved to the embedded engine: run it there, "
                    "or move it back to a new --checkpoint"
                )
            made_ms = _checked_app(files, posixpath.join(path, "app.json"), path, plan, now_ms)
            runs = posixpath.join(path, "runs")
            run = int(files.read_text(runs)) + 1 if files.exists(runs) else 1
            files.write_text_atomic(runs, f"{run}\n")
            on_failure.pop_all()
        return cls(files, path, lock, run, made_ms)

    def close(self) -> None:
        """Release the directory."""
        self._lock.release()

    def query(self, program: int) -> str:
        """Return the path of Spark's checkpoint of a sub-topology."""
        return posixpath.join(self.path, str(program), "query")

    def state(self, program: int) -> str:
        """Return the directory of the files of a sub-topology."""
        return posixpath.join(self.path, str(program), "state")

    def ends(self, program: int, batch: int) -> dict[str, dict[int, int]]:
        """Return where a batch ends, by topic and partition, as Spark has noted it before it ran
        the batch. Empty if the note is not there."""
        path = posixpath.join(self.query(program), "offsets", str(batch))
        if not self.files.exists(path):
            return {}
        found = json.loads(self.files.read_text(path).splitlines()[-1])
        return {
            topic: {int(partition): int(offset) for partition, offset in offsets.items()}
            for topic, offsets in found.items()
            if not topic.startswith("$")  # what else the source keeps
        }

    def versions_before(self, program: int, batch: int) -> dict[int, Version]:
        """Return the versions that a batch begins with."""
        earlier = [each for each in self._committed(program) if each < batch]
        if earlier:
            return self._versions(program, max(earlier))
        moved = self._read_moved(program)
        return from_json(moved["versions"]) if moved else {}

    @property
    def is_used(self) -> bool:
        """Whether a query has begun here, or an app was moved here."""
        programs = [name for name in self.files.list(self.path) if name.isdecimal()]
        return any(self.files.list(posixpath.join(self.path, name)) for name in programs)

    def begin_moved(
        self,
        program: int,
        offsets: Mapping[str, Mapping[int, int]],
        versions: Mapping[int, Version],
    ) -> None:
        """Begin a sub-topology with stores and offsets of another engine."""
        self.files.make_dirs(posixpath.join(self.path, str(program)))
        found = {"offsets": offsets, "versions": to_json(versions)}
        self.files.write_text_atomic(self._moved(program), json.dumps(found))

    def moved_offsets(self, program: int) -> dict[str, dict[int, int]]:
        """Return the offsets that the sub-topology began with; empty if it was not moved here."""
        return {
            topic: {int(partition): offset for partition, offset in each.items()}
            for topic, each in self._read_moved(program).get("offsets", {}).items()
        }

    def last(self, program: int, partition: int) -> tuple[int, Version | None]:
        """Return the last committed batch, -1 for none, and the version of a task after it."""
        batch = max(self._committed(program), default=-1)
        return batch, self.versions_before(program, batch + 1).get(partition)

    def read_state(self, program: int, partition: int, name: str) -> bytes:
        """Return a file of a task."""
        return self.files.read_whole(posixpath.join(self._task(program, partition), name))

    def write_state(self, program: int, partition: int, name: str, data: bytes) -> None:
        """Write a file of a task. It is durable when this returns."""
        folder = self._task(program, partition)
        self.files.make_dirs(folder)
        with self.files.open(posixpath.join(folder, name), "create") as file:
            file.append(data)
            file.sync()
        self.files.sync_dir(folder)

    def leave(self) -> None:
        """Refuse this directory from now on: the app has moved to another engine."""
        self.files.write_text_atomic(posixpath.join(self.path, _LEFT), "embedded\n")

    def is_committed(self, program: int, batch: int) -> bool:
        """Whether the batch has counted already: a driver may end before Spark notes it."""
        return batch in self._committed(program)

    def commit(self, program: int, batch: int, versions: Mapping[int, Version]) -> None:
        """Make a batch count, and remove what is old."""
        folder = self._commits(program)
        self.files.make_dirs(folder)
        self.files.write_text_atomic(self._commit(program, batch), to_json(versions))
        self._clean(program, batch - KEPT_BATCHES)

    def _clean(self, program: int, before: int) -> None:
        """Remove commits of batches before this one, and files that no later one names."""
        old = [each for each in self._committed(program) if each < before]
        if not old:
            return
        for each in old:
            self.files.remove(self._commit(program, each))
        left = [self._versions(program, each) for each in self._committed(program)]
        for name in self.files.list(self.state(program)) if self._has_state(program) else ():
            folder = posixpath.join(self.state(program), name)
            task = int(name.rpartition("_")[2])
            kept = [versions[task] for versions in left if task in versions]
            for stale in stale_files(self.files.list(folder), kept, before):
                self.files.remove(posixpath.join(folder, stale))

    def _task(self, program: int, partition: int) -> str:
        return posixpath.join(self.state(program), f"{program}_{partition}")

    def _moved(self, program: int) -> str:
        return posixpath.join(self.path, str(program), "moved.json")

    def _read_moved(self, program: int) -> dict[str, Any]:
        path = self._moved(program)
        found: dict[str, Any] = {}
        if self.files.exists(path):
            found = json.loads(self.files.read_text(path))
        return found

    def _has_state(self, program: int) -> bool:
        return self.files.exists(self.state(program))

    def _commits(self, program: int) -> str:
        return posixpath.join(self.path, str(program), "commits")

    def _commit(self, program: int, batch: int) -> str:
        return posixpath.join(self._commits(program), f"{batch:0{_DIGITS}d}")

    def _committed(self, program: int) -> list[int]:
        folder = self._commits(program)
        if not self.files.exists(folder):
            return []
        return [int(name) for name in self.files.list(folder) if name.isdecimal()]

    def _versions(self, program: int, batch: int) -> dict[int, Version]:
        return from_json(self.files.read_text(self._commit(program, batch)))


def _local_path(given: str) -> str:
    path = given.removeprefix("file://")
    if "://" in path:
        raise StreamsError(
            f"checkpoint={given}: it must be a directory that the driver and all executors reach "
            "as a path, such as one on a shared disk"
        )
    return absolute_path(path)


def _checked_app(files: Files, name: str, path: str, plan: Plan, now_ms: int) -> int:
    """Return when the directory was made; note a new one. Raise TopologyError if it is of another
    app or topology."""
    wanted = {
        "made_ms": now_ms,
        "app": plan.app,
        "programs": [
            {
                "inputs": sorted(program.inputs),
                "stores": [[store.name, store.layout] for store in program.stores],
            }
            for program in plan.programs
        ],
    }
    if not files.exists(name):
        files.write_text_atomic(name, json.dumps(wanted))
        return now_ms
    found = json.loads(files.read_text(name))
    if found["app"] != plan.app:
        raise TopologyError(
            f"checkpoint={path}: it is of the app {found['app']}, not of {plan.app}: give this app "
            "another --checkpoint"
        )
    if found["programs"] != wanted["programs"]:
        raise TopologyError(
            f"checkpoint={path}: app {plan.app} had other inputs or stores when it was made: give "
            "the app as it was, or a new --checkpoint, which begins without state"
        )
    return int(found.get("made_ms", 0))
