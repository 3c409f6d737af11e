"""Checkpoints of a connector: a folder for each generation, and a lock.

    <checkpoint.location>/<connector>/generation.json     {"generation": 2, "starting": {...}}
    <checkpoint.location>/<connector>/gen-2/              what Spark keeps
    <checkpoint.location>/<connector>/session             the last session on a Spark Connect server
    <checkpoint.location>/<connector>/topics/<topic>/     the same for the query of one topic
    <checkpoint.location>/.<connector>.removed/           a folder that is being removed

Spark's checkpoints cannot be edited, so other offsets are a new generation that begins at them.
A connector's folder has one query or one a topic, never both: a query of the other kind would read
again what is written already.
Invariant: one process works on a connector's checkpoint at a time. On this machine the lock goes
with its process; at a URI it is a file (`lease`), if fsspec can open the URI.
"""

from __future__ import annotations

import fcntl
import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from moldau.connectors.file.storage import storage_of
from moldau.connectors.pace import Pace, Patrol
from moldau.connectors.spark.lease import RENEW_S, Lease, another_query
from moldau.errors import ConfigError
from moldau.ids import format_uuid, new_uuid
from moldau.runtime.real import RealRuntime
from moldau.spark.ranges import Checkpoint

LOG: Final = logging.getLogger("moldau.connectors.spark")
_STATE: Final = "generation.json"
_LOCK: Final = "lock"
_SESSION: Final = "session"
_CLOSED: Final = "closed"
_LOG: Final = "_spark_metadata"
_COLUMNS: Final = "columns"
_TOPICS: Final = "topics"
_PARTS: Final = re.compile(r"gen-\d+(\.new)?|topics|spool|lock|(generation\.json|session)(\.new)?")
"""All names that the folder of a connector has in it."""
_OWNER: Final = "_moldau_connector-"
"""With the name of the connector that writes there. Spark reads no file that begins with `_`."""
_NOWHERE: Final = "-"
"""Spark's word for a source that has no offset in a batch."""


@dataclass(frozen=True)
class Generation:
    """Which checkpoint is in use, and where a fresh one begins."""

    number: int = 0
    starting: Checkpoint = field(default_factory=dict)
    token: str = field(default="", compare=False)
    """Tells it from one of the same number in a folder that was removed meanwhile."""


class Session(NamedTuple):
    """A session on a Spark Connect server. `is_left`: it was not closed, as far as is known."""

    number: int
    is_left: bool


class CheckpointFolder:
    """The folder of a connector, or of one of its topics, on a file system of this machine or at a
    URI that Spark knows."""

    def __init__(self, location: str, connector: str, topic: str | None = None) -> None:
        self._connector = connector
        self._topic = topic
        parts = urlsplit(location)
        self.is_here = parts.scheme in ("", "file")
        self._whole = Path(parts.path if parts.scheme else location, connector)
        self._path = self._whole if topic is None else self._whole / _TOPICS / topic
        below = "" if topic is None else f"/{_TOPICS}/{topic}"
        self._location = location
        self._address = f"{location.rstrip('/')}/{connector}{below}"
        self._lock: Any = None
        self._lease: Lease | None = None
        self._patrol: Patrol | None = None
        self._lost: ConfigError | None = None

    @property
    def name(self) -> str:
        """Of the query that works on it, among all connectors. No topic has a colon."""
        return self._connector if self._topic is None else f"{self._connector}:{self._topic}"

    def query(self, generation: Generation) -> str:
        """The name by which the sink knows the batches of this generation."""
        if not generation.number:
            return self.name
        number = f"{generation.number}-{generation.token}".rstrip("-")
        return f"{self.name}-{number}" if self._topic is None else f"{self.name}:{number}"

    def path(self, generation: Generation) -> str:
        """Where Spark keeps this generation."""
        name = f"gen-{generation.number}"
        if self.is_here:
            return str(self._path / name)
        return f"{self._address}/{name}"

    def read(self) -> Generation:
        """The generation in use; the first one unless offsets were altered."""
        state = self._path / _STATE
        if not self.is_here or not state.exists():
            return Generation()
        found = json.loads(state.read_text(encoding="utf-8"))
        return Generation(found["generation"], found["starting"], found.get("token", ""))

    def begin_anew(self, starting: Mapping[str, Mapping[str, int]]) -> Generation:
        """The next generation: offsets by topic and partition, or {} for `starting.offsets`."""
        if not self.is_here:
            raise ConfigError(
                "offsets of a checkpoint at a URI cannot be altered here: choose another "
                "checkpoint.location and starting.offsets",
                location=self._location,
            )
        self.check_kind()
        token = RealRuntime().random.randbytes(4).hex()
        starts = {topic: dict(partitions) for topic, partitions in starting.items()}
        new = Generation(self.read().number + 1, starts, token)
        self._path.mkdir(parents=True, exist_ok=True)
        draft = self._path / f"{_STATE}.new"
        text = json.dumps({"generation": new.number, "starting": starts, "token": token})
        draft.write_text(text, encoding="utf-8")
        draft.replace(self._path / _STATE)
        return new

    def reached(self) -> Checkpoint:
        """Where the generation in use goes on; where it begins if it has not written a batch."""
        used = self.read()
        folder = Path(self.path(used), "rows")
        numbers = batches_in(str(folder / "commits")) if self.is_here else []
        if not numbers:
            return used.starting
        lines = (folder / "offsets" / str(max(numbers))).read_text(encoding="utf-8").splitlines()
        if lines[-1] == _NOWHERE:
            return used.starting
        found: Checkpoint = json.loads(lines[-1])
        return found

    def is_fresh(self, generation: Generation) -> bool:
        """Whether Spark has not begun a batch of it. False for a URI, which only Spark can read."""
        return self.is_here and not batches_in(f"{self.path(generation)}/rows/offsets")

    def number_from(self, generation: Generation, last: int) -> None:
        """Makes a fresh generation's first batch `last + 1`. It begins at the same offsets as
        without: Spark asks a source for its initial offset where the log has none of it."""
        folder = Path(self.path(generation), "rows")
        digits = sha256(str(folder).encode()).hexdigest()
        identity = f"{digits[:8]}-{digits[8:12]}-5{digits[12:15]}-a{digits[15:18]}-{digits[18:30]}"
        about = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
        offsets = f"v1\n{json.dumps(about)}\n{_NOWHERE}"
        texts = {
            "metadata": json.dumps({"id": identity}),
            f"commits/{last}": 'v1\n{"nextBatchWatermarkMs":0}',
            f"offsets/{last}": offsets,
        }
        if last > 0:
            texts[f"offsets/{last - 1}"] = offsets  # Spark looks at the one before the last
        # The folder appears whole: until then the generation is still fresh.
        draft = folder.with_name(f"{folder.name}.new")
        _remove_tree(draft)
        for name, text in texts.items():
            place = draft / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        _remove_tree(folder)
        draft.replace(folder)

    def last_session(self) -> Session:
        """The last session on a Spark Connect server; number 0 before the first."""
        try:
            number, *words = (self._path / _SESSION).read_text(encoding="ascii").split()
        except FileNotFoundError:
            return Session(0, is_left=False)
        return Session(int(number), is_left=_CLOSED not in words)

    def note_session(self, session: Session) -> None:
        """This session begins or has ended. For the process that has the lock."""
        draft = self._path / f"{_SESSION}.new"
        text = str(session.number) if session.is_left else f"{session.number} {_CLOSED}"
        draft.write_text(text, encoding="ascii")
        draft.replace(self._path / _SESSION)

    def columns(self) -> str | None:
        """The columns that were inferred for the generation in use."""
        if not self.is_here:
            return None
        try:
            return Path(self.path(self.read()), _COLUMNS).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def keep_columns(self, columns: str) -> None:
        """For the next start."""
        if self.is_here:
            place = Path(self.path(self.read()), _COLUMNS)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(columns, encoding="utf-8")

    def check_kind(self) -> None:
        """ConfigError if the connector's folder was begun with the other `spark.task.per.topic`.
        Nothing is checked at a URI, which only Spark can read."""
        if not self.is_here:
            return
        is_split = self._topic is not None
        others = self._whole.glob("gen-*") if is_split else self._whole.glob(_TOPICS)
        if any(others):
            raise ConfigError(
                f"the checkpoint was begun with spark.task.per.topic={str(not is_split).lower()}: "
                "set it back, or choose another name for the connector",
                path=str(self._whole),
            )

    def lock(self) -> None:
        """ConfigError if another process has it. Held until `release` or the process's end."""
        self.check_kind()
        self.hold()

    def hold(self) -> None:
        """As `lock`, of either kind: to remove it."""
        if not self.is_here:
            self._lock_far()
            return
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            self._lock = (self._path / _LOCK).open("a")
        except OSError as error:
            raise ConfigError(
                f"the checkpoint cannot be written: {error.strerror}", path=str(self._path)
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            raise another_query(str(self._path)) from None

    def _lock_far(self) -> None:
        path = f"{self._address}/{_LOCK}"
        runtime, pace = RealRuntime(), Pace()
        owner = format_uuid(new_uuid(runtime.random))
        try:
            lease = Lease(storage_of(path), path, owner, pace.wait)
            lease.take()
        except ConfigError:
            raise
        except Exception as error:
            # Spark may reach the URI by logins that fsspec does not have.
            LOG.warning("a second query on this checkpoint would not be noticed: %s", error)
            return
        self._lease, self._patrol = lease, Patrol(self._renew, RENEW_S, pace)
        self._patrol.start()

    def _renew(self) -> None:
        lease = self._lease
        try:
            if lease is not None:
                lease.renew()
        except ConfigError as error:
            self._lost = error
        except Exception as error:
            LOG.warning("the lock of the checkpoint is not renewed, it is tried again: %s", error)

    def check_lock(self) -> None:
        """ConfigError if another process has taken the checkpoint over."""
        if self._lost is not None:
            raise self._lost

    def claim(self, path: str) -> None:
        """Note that this connector writes the files of a directory. ConfigError if another one
        does: Spark's log there leaves out batch numbers that it has, so the rows of one of them
        would be lost. Does nothing for a URI, which only Spark can read."""
        parts = urlsplit(path)
        if parts.scheme not in ("", "file"):
            return
        folder = Path(parts.path if parts.scheme else path)
        note = folder / f"{_OWNER}{quote(self._connector, safe='')}"
        is_new = not note.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            note.touch()
            others = [each for each in folder.glob(f"{_OWNER}*") if each != note]
            if others and is_new:
                note.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(
                f"sink.path cannot be written: {error.strerror}", path=path
            ) from error
        if others:
            raise ConfigError(
                "another connector writes into this sink.path: give each one a directory of its "
                f"own, or remove {others[0].name} there if that connector is gone for good",
                path=path,
                connector=unquote(others[0].name.removeprefix(_OWNER)),
            )
        if is_new and self._would_leave_out(folder):
            note.unlink(missing_ok=True)
            raise ConfigError(
                "this sink.path has batches of another query, and Spark would leave out those of "
                "this one with the same numbers: choose another directory; or, if this connector "
                f"has written them, put a file {note.name} there",
                path=path,
            )

    def _would_leave_out(self, folder: Path) -> bool:
        """Whether Spark's log of a directory may have a batch that this query has yet to write. A
        fresh generation takes other numbers. At a URI it is not known what the query has."""
        theirs = batches_in(str(folder / _LOG)) or []
        generation = self.read()
        if not theirs or self.is_fresh(generation):
            return False
        written = batches_in(f"{self.path(generation)}/rows/commits") or []
        return max(theirs) > max(written, default=-1)

    def disclaim(self, path: str) -> None:
        """The opposite of `claim`: the directory is no connector's. Its rows and Spark's log of
        them stay."""
        parts = urlsplit(path)
        if parts.scheme in ("", "file"):
            folder = Path(parts.path if parts.scheme else path)
            (folder / f"{_OWNER}{quote(self._connector, safe='')}").unlink(missing_ok=True)

    def topics(self) -> list[str]:
        """The topics of the connector that have a folder."""
        if self.is_here:
            return sorted(each.name for each in self._whole.glob(f"{_TOPICS}/*"))
        start = f"{self._address}/{_TOPICS}/"
        below = [each for each in storage_of(start).below(self._address) if each.startswith(start)]
        return sorted({each.removeprefix(start).partition("/")[0] for each in below})

    def others(self) -> list[str]:
        """The names of what lies in the folder and is no part of it: a sink or source may have its
        files there, and `shop/b` is a connector's name too."""
        if self.is_here:
            names = {each.name for each in self._path.iterdir()}
        else:
            files = storage_of(self._address).below(self._address)
            start = f"{self._address}/"
            names = {each.removeprefix(start).partition("/")[0] for each in files}
        return sorted(each for each in names if not _PARTS.fullmatch(each))

    def remove(self) -> None:
        """All that the connector has at `checkpoint.location`. For the process that holds each
        lock. Nothing of it is there for the next query, also if this is cut short."""
        if not self.is_here:
            storage = storage_of(self._address)
            for each in storage.below(self._address):
                storage.remove(each)
            return
        going = self._whole.with_name(f".{self._whole.name}.removed")
        _remove_tree(going)
        self._whole.replace(going)
        _remove_tree(going)

    @property
    def is_there(self) -> bool:
        """Whether the connector has something at `checkpoint.location`."""
        if self.is_here:
            return self._whole.is_dir()
        return bool(storage_of(self._address).below(self._address))

    def release(self) -> None:
        """Lets others work on it. Does nothing without the lock."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()
        lease, self._lease = self._lease, None
        if lease is not None and self._patrol is not None:
            self._patrol.stop()
            try:
                lease.release()
            except Exception as error:
                LOG.warning("the next query waits for the lock of this one: %s", error)


def _remove_tree(path: Path) -> None:
    """A directory with all that is in it; nothing happens if there is none."""
    if not path.is_dir():
        return
    # What is inside a directory comes after it in this order.
    for each in sorted(path.rglob("*"), reverse=True):
        if each.is_dir() and not each.is_symlink():
            each.rmdir()
        else:
            each.unlink()
    path.rmdir()


def batches_in(folder: str) -> list[int] | None:
    """The batches of a log in a directory, each of which is `7`, or `9.compact` with those before
    it; None for a URI that only Spark can read."""
    parts = urlsplit(folder)
    if parts.scheme not in ("", "file"):
        return None
    place = Path(parts.path if parts.scheme else folder)
    return batches_of([each.name for each in place.iterdir()]) if place.is_dir() else []


def batches_of(names: Iterable[str]) -> list[int]:
    """As `batches_in`, by the names of the files."""
    plain = [name.removesuffix(".compact") for name in names]
    return [int(name) for name in plain if name.isdigit()]
