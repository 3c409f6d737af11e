"""What `moldau dev` runs of a folder: the table `[tool.moldau.dev]` of its pyproject.toml.

[tool.moldau.dev]
app = "words:app"                  a Streams app; or
connectors = ["connector.json"]    connectors of the folder; or
pipeline = "pipeline.yaml"         a pipeline
topics = {lines = 2}               topics that are made first, with their partitions
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from moldau.deferred import dataclass
from moldau.errors import ConfigError

if TYPE_CHECKING:
    from moldau.runtime.files import Files

FILE: Final = "pyproject.toml"
DIRECTORY: Final = ".moldau/dev"
"""Where everything is kept, in the folder of the project, unless `--dir` says otherwise."""
PIPELINE: Final = "pipeline"
"""The folder in it with the data of a pipeline."""
_KINDS: Final = ("app", "connectors", "pipeline")
_HERE: Final = "127.0.0.1"
_PARTITIONS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class DevProject:
    """The project of a folder. At most one of `app`, `connectors` and `pipeline` is there."""

    app: str | None = None
    connectors: tuple[str, ...] = ()
    pipeline: str | None = None
    topics: dict[str, int] = field(default_factory=dict)

    @property
    def brings_worker(self) -> bool:
        """Whether the project runs a Connect worker of its own, with its plugins and settings."""
        return bool(self.connectors) or self.pipeline is not None

    @property
    def title(self) -> str | None:
        """The name of what runs, for people; None if nothing does."""
        return self.app or self.pipeline or ", ".join(self.connectors) or None

    @property
    def shown_as(self) -> str:
        """The name of an app or a pipeline on the pages of the console."""
        name = self.app.rpartition(":")[0] if self.app else (self.pipeline or "").partition(".")[0]
        return re.sub(r"[^\w.-]+", "-", name) or "project"

    def words(self, bootstrap: str, rest: tuple[str, int], directory: str, shown: int) -> list[str]:
        """Return the command that runs the project; `directory` is for its data, and the console
        asks it at the port `shown`."""
        host, port = rest
        if self.app is not None:
            state = f"{directory}/streams"
            return ["streams", "run", self.app, "-b", bootstrap, "--state", state,
                    "--listen", f"{_HERE}:{shown}", "--log-level", "warn"]  # fmt: skip
        if self.pipeline is not None:
            return ["pipeline", "run", self.pipeline, "-b", bootstrap,
                    "--data", f"{directory}/{PIPELINE}", "--rest-port", str(port),
                    "--status", f"{_HERE}:{shown}"]  # fmt: skip
        return ["connect", "run", *self.connectors, "-b", bootstrap,
                "--state", f"{directory}/connect", "--listen", f"{host}:{port}",
                "--set", "offset.flush.interval.ms=1000", "--log-level", "warn"]  # fmt: skip


def project_of(folder: str, files: Files) -> DevProject:
    """Return the project of a folder: an empty one without a pyproject.toml."""
    path = f"{folder}/{FILE}"
    if not files.exists(path):
        return DevProject()
    try:
        return parse_project(files.read_text(path))
    except UnicodeDecodeError:
        raise ConfigError(f"{FILE} is no text in UTF-8") from None


def parse_project(text: str) -> DevProject:
    """Return the project of a pyproject.toml. Raise ConfigError, which names the key."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{FILE}: {error}") from None
    tool = document.get("tool", {})
    moldau = tool.get("moldau", {}) if isinstance(tool, dict) else {}
    table = moldau.get("dev", {}) if isinstance(moldau, dict) else {}
    if not isinstance(table, dict):
        raise _wrong("is a table")
    unknown = sorted(table.keys() - {*_KINDS, "topics"})
    if unknown:
        raise _wrong(f"has no key {unknown[0]} (known: {', '.join(_KINDS)}, topics)")
    given = [name for name in _KINDS if name in table]
    if len(given) > 1:
        raise _wrong(f"takes one of {' and '.join(given)}")
    return DevProject(
        _text(table, "app"),
        _texts(table, "connectors"),
        _text(table, "pipeline"),
        _topics(table.get("topics", {})),
    )


def _text(table: dict[str, Any], name: str) -> str | None:
    value = table.get(name)
    if value is not None and (not isinstance(value, str) or not value or value.startswith("-")):
        example = "MODULE:APP" if name == "app" else "a file"
        raise _wrong(f"{name} takes a text, {example}")
    return value


def _texts(table: dict[str, Any], name: str) -> tuple[str, ...]:
    value = table.get(name, [])
    if not isinstance(value, list) or not all(
        isinstance(each, str) and each and not each.startswith("-") for each in value
    ):
        raise _wrong(f"{name} takes a list of files")
    return tuple(value)


def _topics(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        raise _wrong("topics takes names and numbers of partitions: {lines = 2}")
    for name, count in value.items():
        if type(count) is not int or not 1 <= count <= _PARTITIONS_MAX:
            raise _wrong(f"topics: {name} takes a number of partitions, from 1 on")
    return value


def _wrong(what: str) -> ConfigError:
    return ConfigError(f"{FILE}: [tool.moldau.dev] {what}")
