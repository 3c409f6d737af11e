"""The directory of an app's state on Spark: its topology, the committed versions, one driver.

    DIR/.lock, DIR/app.json, DIR/runs
    DIR/topics.json        the ids of the inputs
    DIR/moving             a move to Spark has begun here, and is not done
    DIR/left               the app has moved to the embedded engine
    DIR/begin.json         the versions of all tasks before the first batch, by sub-topology
    DIR/0/commits/BATCH    their versions after a batch, with the offsets where they go on
    DIR/0/state/0_PARTITION/TOKEN.delta, TOKEN.snapshot

Invariants: one driver holds the directory at a time; a commit file is written whole, after the
files that it names. No batch runs before `begin.json` is written, for all sub-topologies at once; a
driver that dies before that has begun nothing. While `moving` is there, also beside `begin.json`,
only a move may go on. The directory must be one that every executor reaches under the same path.

Only the holder changes it, so each commit file is read once. A batch reads one file, `runs`: on
some shared disks a lock does not hold.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final, Self

from moldau.runtime.files import FileLock, Files
from moldau.runtime.places import absolute_path
from moldau.streams.plan.plan import Plan
from moldau.streams.problems import StreamsError, TopologyError
from moldau.streams.spark.versions import (
    KEPT_BATCHES,
    Version,
    beginning_from_json,
    beginning_to_json,
    from_json,
    lacking,
    stale_files,
    to_json,
)

_DIGITS: Final = 12
_LEFT: Final = "left"
_MOVING: Final = "moving"
_APP: Final = "app.json"
_RUNS: Final = "runs"


class Checkpoint:
    """The directory, held by one driver from `open` to `close`."""

    def __init__(self, files: Files, path: str, lock: FileLock, run: int, made_ms: int) -> None:
        self.files = files
        self.path = path
        self.id = str(made_ms)
        """The time when it began, about: of an app's checkpoints the last one has the greatest.
        Batches of another checkpoint are other batches."""
        self.run = run
        """The time since when this driver has the directory, about: later ones have a greater."""
        self._lock = lock
        self._batches: dict[int, list[int]] = {}
        """The committed batches by sub-topology, in order."""
        self._commits: dict[tuple[int, int], dict[int, Version]] = {}
        """The versions after batches, by sub-topology and batch, as far as they were read."""

    @classmethod
    def open(cls, files: Files, given: str, plan: Plan, now_ms: int) -> Self:
        """Hold the directory for this app. Raise StreamsError if another driver holds it,
        TopologyError if it is of another app or topology."""
        path = local_path(given)
        text = (
            f"checkpoint={path}: another driver runs with it: stop that one, or give this app "
            "another --checkpoint"
        )
        lock = files.lock_directory(path, ".lock", lambda: StreamsError(text))
        with ExitStack() as on_failure:
            on_failure.callback(lock.release)
            _refuse_left(files, path)
            made_ms = _checked_app(files, posixpath.join(path, _APP), path, plan, now_ms)
            runs = posixpath.join(path, _RUNS)
            last = int(files.read_text(runs)) if files.exists(runs) else 0
            run = max(now_ms, last + 1)
            files.write_text_atomic(runs, f"{run}\n")
            on_failure.pop_all()
        return cls(files, path, lock, run, made_ms)

    def close(self) -> None:
        """Release the directory."""
        self._lock.release()

    def check_held(self) -> None:
        """Raise StreamsError if the app has moved, or another driver has the directory after all:
        on some shared disks a lock does not hold."""
        _refuse_left(self.files, self.path)
        runs = posixpath.join(self.path, _RUNS)
        if not self.files.exists(runs) or int(self.files.read_text(runs)) != self.run:
            raise StreamsError(
                f"checkpoint={self.path}: another driver has taken it over, or it was deleted: let "
                "one driver run at a time, and keep the directory while it does"
            )

    def state(self, program: int) -> str:
        """Return the directory of the files of a sub-topology."""
        return posixpath.join(self.path, str(program), "state")

    def versions_before(self, program: int, batch: int) -> dict[int, Version]:
        """Return the versions that a batch begins with."""
        earlier = [each for each in self._committed(program) if each < batch]
        if earlier:
            return self._versions(program, max(earlier))
        if not self.has_begun:
            return {}
        return beginning_from_json(self.files.read_text(self._begin)).get(program, {})

    @property
    def is_cut(self) -> bool:
        """Whether a move to this directory was cut short, or files are there without a beginning,
        as older versions of moldau have left them."""
        has_files = any(map(self.files.list, self._folders()))
        return self._is_moving or (has_files and not self.has_begun)

    @property
    def has_batches(self) -> bool:
        """Whether a batch was committed here."""
        return any(self._committed(int(posixpath.basename(each))) for each in self._folders())

    def start_move(self) -> None:
        """Note that a move to this directory has begun, and remove what an earlier one has left
        here. Only `end_move` ends it."""
        assert not self.has_batches
        self.files.write_text_atomic(posixpath.join(self.path, _MOVING), "spark\n")
        for each in self._folders():
            self.files.remove_tree(each)
        self._batches.clear()
        self._commits.clear()

    def take_run(self, least: int) -> None:
        """Take a greater number of the run, if this one is not `least` or more: a copy of the
        directory may have had drivers of its own. It is durable when this returns."""
        if self.run < least:
            self.files.write_text_atomic(posixpath.join(self.path, _RUNS), f"{least}\n")
            self.run = least

    def take_id(self, made_ms: int) -> None:
        """Take another id, before the checkpoint begins. It is durable when this returns."""
        assert not self.has_begun
        path = posixpath.join(self.path, _APP)
        found = json.loads(self.files.read_text(path))
        self.files.write_text_atomic(path, json.dumps({**found, "made_ms": made_ms}))
        self.id = str(made_ms)

    def begin(self, versions: Mapping[int, Mapping[int, Version]]) -> None:
        """Note where the tasks of all sub-topologies begin: at offsets, or with the stores of
        another engine. It is durable as a whole when this returns."""
        self.files.write_text_atomic(self._begin, beginning_to_json(versions))

    def end_move(self) -> None:
        """Let drivers go on from where a move has begun this directory. It is durable when this
        returns."""
        self.files.remove(posixpath.join(self.path, _MOVING))
        self.files.sync_dir(self.path)

    @property
    def has_begun(self) -> bool:
        """Whether `begin` was called, by this driver or an earlier one, and no move is open."""
        return self.files.exists(self._begin) and not self._is_moving

    def check_topics(self, ids: Mapping[str, str]) -> None:
        """Note the ids of the inputs. Raise StreamsError if a topic was deleted and made again."""
        path = posixpath.join(self.path, "topics.json")
        known = json.loads(self.files.read_text(path)) if self.files.exists(path) else {}
        for topic, found in ids.items():
            if known.get(topic, found) != found:
                raise StreamsError(
                    f"checkpoint={self.path}: the topic {topic} was deleted and made again: give a "
                    "new --checkpoint, which begins without state"
                )
        if not ids.keys() <= known.keys():
            self.files.write_text_atomic(path, json.dumps({**known, **ids}))

    def last(self, program: int, partition: int) -> tuple[int, Version | None]:
        """Return the last committed batch, -1 for none, and the version of a task after it."""
        batch = max(self._committed(program), default=-1)
        return batch, self.versions_before(program, batch + 1).get(partition)

    def read_state(self, program: int, partition: int, name: str) -> bytes:
        """Return a file of a task. Raise StateError if it is not there."""
        folder = self._task(program, partition)
        try:
            return self.files.read_whole(posixpath.join(folder, name))
        except FileNotFoundError:
            raise lacking(folder, name) from None

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

    def commit(self, program: int, batch: int, versions: Mapping[int, Version]) -> None:
        """Make a batch count, and remove what is old."""
        committed = self._committed(program)
        self.files.make_dirs(self._folder(program))
        self.files.write_text_atomic(self._file(program, batch), to_json(versions))
        if batch not in committed:
            committed.append(batch)
        self._commits[program, batch] = dict(versions)
        self._clean(program, batch - KEPT_BATCHES)

    def _clean(self, program: int, before: int) -> None:
        """Remove commits of batches before this one, and files that no later one names."""
        committed = self._committed(program)
        old = [each for each in committed if each < before]
        if not old:
            return
        for each in old:
            self.files.remove(self._file(program, each))
            committed.remove(each)
            self._commits.pop((program, each), None)
        left = [self._versions(program, each) for each in committed]
        for name in self.files.list(self.state(program)) if self._has_state(program) else ():
            folder = posixpath.join(self.state(program), name)
            task = int(name.rpartition("_")[2])
            kept = [versions[task] for versions in left if task in versions]
            for stale in stale_files(self.files.list(folder), kept, before):
                self.files.remove(posixpath.join(folder, stale))

    def _task(self, program: int, partition: int) -> str:
        return posixpath.join(self.state(program), f"{program}_{partition}")

    @property
    def _is_moving(self) -> bool:
        return self.files.exists(posixpath.join(self.path, _MOVING))

    @property
    def _begin(self) -> str:
        return posixpath.join(self.path, "begin.json")

    def _folders(self) -> list[str]:
        """Return the directories of the sub-topologies."""
        names = [name for name in self.files.list(self.path) if name.isdecimal()]
        return [posixpath.join(self.path, name) for name in names]

    def _has_state(self, program: int) -> bool:
        return self.files.exists(self.state(program))

    def _folder(self, program: int) -> str:
        return posixpath.join(self.path, str(program), "commits")

    def _file(self, program: int, batch: int) -> str:
        return posixpath.join(self._folder(program), f"{batch:0{_DIGITS}d}")

    def _committed(self, program: int) -> list[int]:
        if program not in self._batches:
            folder = self._folder(program)
            names = self.files.list(folder) if self.files.exists(folder) else []
            self._batches[program] = [int(name) for name in names if name.isdecimal()]
        return self._batches[program]

    def _versions(self, program: int, batch: int) -> dict[int, Version]:
        key = program, batch
        if key not in self._commits:
            self._commits[key] = from_json(self.files.read_text(self._file(program, batch)))
        return dict(self._commits[key])


def _refuse_left(files: Files, path: str) -> None:
    if files.exists(posixpath.join(path, _LEFT)):
        raise StreamsError(
            f"checkpoint={path}: its app has moved to the embedded engine: run it there, or move "
            "it back to a new --checkpoint"
        )


def local_path(given: str) -> str:
    """Return the path of a checkpoint. Raise StreamsError if it is no directory of a disk."""
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
