"""Where a pipeline keeps its things, and what it writes down about itself.

DIR/broker        the broker's data, where `run` brings one
DIR/apps/NAME     the stores of an app
DIR/logs/NAME.log what a part wrote to standard error; NAME.out: to standard output
DIR/settings      settings of parts, with secrets resolved: DIR is readable by its owner alone
DIR/state.json    what runs, at which addresses, and what the pipeline has made
DIR/run.lock      held by the `run` that is alive
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.errors import MoldauError
from moldau.runtime.files import FileLock, Files

_TAIL_BYTES = 8192


class PipelineFailed(MoldauError):
    """A pipeline cannot run, or cannot go on. One line for the user."""


@dataclass(slots=True)
class PartState:
    """One process of the tree."""

    kind: str
    pid: int | None = None
    state: str = "STARTING"
    restarts: int = 0
    error: str | None = None


@dataclass(slots=True)
class RunState:
    """What `status` and `down` need to know of a `run`, and the next `run` of the last one."""

    pid: int = 0
    bootstrap: str = ""
    rest: str = ""
    is_own_broker: bool = True
    is_own_worker: bool = True
    parts: dict[str, PartState] = field(default_factory=dict)
    topics: list[str] = field(default_factory=list)
    """Made by the pipeline."""
    connectors: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)

    def note(self, kind: str, name: str) -> None:
        """Something was made."""
        made: list[str] = getattr(self, kind)
        if name not in made:
            made.append(name)


class Place:
    """The directory of one pipeline's data."""

    def __init__(self, files: Files, directory: str) -> None:
        self.files = files
        self.directory = directory

    def path(self, *parts: str) -> str:
        return "/".join((self.directory, *parts))

    def prepare(self) -> None:
        """Makes the directories."""
        from moldau.runtime.places import make_private_directory

        make_private_directory(self.directory)
        for name in ("apps", "logs", "settings"):
            self.files.make_dirs(self.path(name))

    def lock(self) -> FileLock:
        """PipelineFailed while another `run` is alive."""
        try:
            return self.files.lock(self.path("run.lock"))
        except BlockingIOError:
            raise PipelineFailed(
                f"this pipeline runs already, as process {self.load().pid}: "
                "`moldau pipeline status` shows it, `moldau pipeline down` ends it"
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
        """The state that was saved last, or an empty one."""
        path = self.path("state.json")
        if not self.files.exists(path):
            return RunState()
        try:
            found: dict[str, Any] = json.loads(self.files.read_text(path))
            parts = {name: PartState(**part) for name, part in found.pop("parts", {}).items()}
            return RunState(**found, parts=parts)
        except (ValueError, TypeError):
            raise PipelineFailed(f"{path} is damaged: delete it, nothing depends on it") from None

    def save(self, state: RunState) -> None:
        """Durable when this returns."""
        plain = {
            name: getattr(state, name) for name in RunState.__dataclass_fields__ if name != "parts"
        }
        plain["parts"] = {
            name: {key: getattr(part, key) for key in PartState.__dataclass_fields__}
            for name, part in state.parts.items()
        }
        self.files.write_text_atomic(self.path("state.json"), json.dumps(plain, indent=2) + "\n")

    def write_settings(self, name: str, settings: Mapping[str, str]) -> str:
        """As properties; the path."""
        path = self.path("settings", f"{name}.properties")
        lines = [f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items()]
        self.files.write_text_atomic(path, "".join(lines))
        return path

    def keep_output(self, name: str, line: str) -> None:
        """Standard output of a part, for later."""
        with self.files.open(self.path("logs", f"{name}.out"), "write") as file:
            file.append(f"{line}\n".encode())

    def last_error(self, name: str) -> str | None:
        """The last line of a part's log that tells of an error, as a person reads it."""
        path = self.path("logs", f"{name}.log")
        if not self.files.exists(path):
            return None
        with self.files.open(path) as file:
            tail = file.read_at(max(0, file.size - _TAIL_BYTES), _TAIL_BYTES)
        return error_in(tail.decode("utf-8", "replace"))


def error_in(log: str) -> str | None:
    """The last line of a log that tells of an error, without time and level."""
    for line in reversed(log.splitlines()):
        if line.startswith("moldau: "):
            return line.removeprefix("moldau: ")
        for level in (" ERROR ", " FATAL "):
            _, found, text = line.partition(level)
            if found:
                return text.strip()
    return None


def _escaped(text: str) -> str:
    """As `.properties` wants it."""
    for plain, escaped in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(plain, escaped)
    for each in "=:#! ":
        text = text.replace(each, f"\\{each}")
    return text
