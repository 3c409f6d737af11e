"""Read and write the data directory of a pipeline.

DIR/broker        the data of the broker, if `run` starts one
DIR/apps/NAME     the stores of an app
DIR/logs/NAME.log what a part wrote to standard error; NAME.out: to standard output
DIR/settings      settings of parts, with resolved secrets: only the owner may read DIR
DIR/state.json    what runs, at which addresses, and what the pipeline has made
DIR/last_run.json the topics, connectors and topologies of the last `run`, for `plan`
DIR/run.lock      locked while a `run` is alive
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.runtime.files import FileLock, Files

_TAIL_BYTES: Final = 64 * 1024
"""A traceback of Spark has some 20 KiB."""
_LOG_BYTES: Final = 1024 * 1024
FINISHED: Final = "FINISHED"
"""The state of a job that has ended by itself, without an error."""
WAITING: Final = "WAITING"
"""The state of a job that has ended without an error, and starts again after a pause."""
OWN_BROKER: Final = "own"
"""`RunState.cluster` of a run with its own broker."""


class PipelineFailed(MoldauError):
    """A pipeline cannot run, or cannot continue. The message is one line for the user."""


@dataclass(slots=True)
class PartState:
    """The state of one process that `run` keeps running."""

    kind: str
    pid: int | None = None
    state: str = "STARTING"
    restarts: int = 0
    error: str | None = None


@dataclass(slots=True)
class RunState:
    """What a `run` saves about itself, for `status`, for `down`, and for the next `run`."""

    name: str = ""
    """The pipeline's name; empty in files of older versions."""
    pid: int = 0
    bootstrap: str = ""
    rest: str = ""
    is_own_broker: bool = True
    is_own_worker: bool = True
    cluster: str = ""
    """The id of the cluster, or OWN_BROKER. It is empty until a `run` has reached a cluster."""
    parts: dict[str, PartState] = field(default_factory=dict)
    topics: list[str] = field(default_factory=list)
    """The topics that the pipeline has made; `connectors` and `groups` are likewise."""
    connectors: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    """The connectors that `run` has started and not stopped yet, in this order."""
    errors: dict[str, str] = field(default_factory=dict)
    """The errors of connectors that have failed lately, by name."""
    missed: dict[str, int] = field(default_factory=dict)
    """How many records were deleted before a part read them, by the names of sinks and apps."""

    def at_start(self, cluster: str, connect: str | None) -> RunState:
        """Return the state of the next `run`, on this cluster and this Connect worker.

        Only what the pipeline has made there is carried over: the other names may belong to
        something else there."""
        is_own_worker = connect is None
        is_same = self.cluster == cluster
        is_same_worker = (
            is_same
            and self.is_own_worker is is_own_worker
            and (is_own_worker or self.rest == connect)
        )
        return RunState(
            rest=connect or "",
            is_own_broker=cluster == OWN_BROKER,
            is_own_worker=is_own_worker,
            cluster=cluster,
            topics=list(self.topics) if is_same else [],
            connectors=list(self.connectors) if is_same_worker else [],
            groups=list(self.groups) if is_same else [],
            missed=dict(self.missed) if is_same else {},
        )

    @property
    def has_made_something(self) -> bool:
        return bool(self.topics or self.connectors or self.groups)

    def record(self, kind: str, name: str) -> None:
        """Note that the pipeline has made a topic, connector or group. `kind` is the field."""
        made: list[str] = getattr(self, kind)
        if name not in made:
            made.append(name)


class DataDirectory:
    """The directory of one pipeline's data."""

    def __init__(self, files: Files, directory: str) -> None:
        self.files = files
        self.directory = directory

    def path(self, *parts: str) -> str:
        return "/".join((self.directory, *parts))

    def prepare(self) -> None:
        """Create the directories. Only their owner may read them."""
        from moldau.runtime.places import make_private_directory

        make_private_directory(self.directory)
        for name in ("apps", "logs", "settings"):
            self.files.make_dirs(self.path(name))

    def lock(self) -> FileLock:
        """Lock the directory for this `run`. Raises PipelineFailed while another one is alive."""
        try:
            return self.files.lock(self.path("run.lock"))
        except BlockingIOError:
            raise PipelineFailed(
                f"this pipeline runs already, as process {self.load().pid}: look at it with "
                "`moldau pipeline status`, or stop it with `moldau pipeline down`"
            ) from None

    def is_running(self) -> bool:
        """Whether a `run` is alive."""
        if not self.files.exists(self.path("run.lock")):
            return False
        try:
            self.files.lock(self.path("run.lock")).release()
        except BlockingIOError:
            return True
        return False

    def load(self) -> RunState:
        """Return the state that was saved last, or an empty state."""
        path = self.path("state.json")
        if not self.files.exists(path):
            return RunState()
        try:
            found: dict[str, Any] = json.loads(self.files.read_text(path))
            parts = {name: PartState(**part) for name, part in found.pop("parts", {}).items()}
            return RunState(**found, parts=parts)
        except (ValueError, TypeError):
            raise PipelineFailed(
                f"{path} is damaged: delete it, the next `run` writes it again"
            ) from None

    def save(self, state: RunState) -> None:
        """Save the state. It is durable when this returns."""
        plain = {
            name: getattr(state, name) for name in RunState.__dataclass_fields__ if name != "parts"
        }
        plain["parts"] = {
            name: {key: getattr(part, key) for key in PartState.__dataclass_fields__}
            for name, part in state.parts.items()
        }
        self.save_json("state.json", plain)

    def load_json(self, name: str) -> dict[str, Any] | None:
        """Return the JSON in a file of this directory; None if it is missing or damaged."""
        path = self.path(name)
        if not self.files.exists(path):
            return None
        try:
            found: dict[str, Any] = json.loads(self.files.read_text(path))
        except ValueError:
            return None
        return found

    def save_json(self, name: str, plain: Mapping[str, Any]) -> None:
        """Write JSON to a file of this directory. It is durable when this returns."""
        self.files.write_text_atomic(self.path(name), json.dumps(plain, indent=2) + "\n")

    def write_settings(self, name: str, settings: Mapping[str, str]) -> str:
        """Write the settings of a part as a properties file. Return its path."""
        path = self.path("settings", f"{name}.properties")
        lines = [f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items()]
        self.files.write_text_atomic(path, "".join(lines))
        return path

    def write_json_settings(self, name: str, settings: Mapping[str, str]) -> str:
        """Write settings that are not only a client's: in a properties file these are left out."""
        self.save_json(f"settings/{name}.json", settings)
        return self.path("settings", f"{name}.json")

    def append_output(self, name: str, line: str) -> None:
        """Append a line to the file with a part's standard output."""
        with self.files.open(self.path("logs", f"{name}.out"), "write") as file:
            file.append(f"{line}\n".encode())

    def log_size(self, name: str) -> int:
        """Return the size of a part's log; 0 if it has none yet."""
        path = self.path("logs", f"{name}.log")
        if not self.files.exists(path):
            return 0
        with self.files.open(path) as file:
            return file.size

    def make_events(self, name: str) -> str:
        """Return the empty directory for the events of a part's processes."""
        path = self.path("events", name)
        if self.files.exists(path):
            self.files.remove_tree(path)
        self.files.make_dirs(path)
        return path

    def new_events(self, name: str, positions: dict[str, int]) -> list[dict[str, Any]]:
        """Return the events of a part behind these positions of its files, which are moved. One
        call reads a limited part of each file."""
        found = []
        for file in sorted(self.files.list(self.path("events", name))):
            begin = positions.get(file, 0)
            with self.files.open(self.path("events", name, file)) as opened:
                piece = opened.read_at(begin, min(opened.size - begin, _LOG_BYTES))
            whole = piece[: piece.rfind(b"\n") + 1]
            positions[file] = begin + len(whole)
            found += [json.loads(line) for line in whole.splitlines()]
        return found

    def log_tail(self, name: str, begin: int) -> str:
        """Return the end of a part's log, as far as it was written from the position `begin` on."""
        size = self.log_size(name)
        if size <= begin:
            return ""
        with self.files.open(self.path("logs", f"{name}.log")) as file:
            start = max(begin, file.size - _TAIL_BYTES)
            return file.read_at(start, file.size - start).decode("utf-8", "replace")


def last_error_in(log: str) -> str | None:
    """Return the last line with an error in a log, without time and level, or None."""
    for line in reversed(log.splitlines()):
        if line.startswith("moldau: "):
            return line.removeprefix("moldau: ")
        for level in (" ERROR ", " FATAL "):
            _, found, text = line.partition(level)
            if found:
                return text.strip()
    return None


def _escaped(text: str) -> str:
    """Escape a key or value for a properties file."""
    for plain, escaped in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(plain, escaped)
    for each in "=:#! ":
        text = text.replace(each, f"\\{each}")
    return text
