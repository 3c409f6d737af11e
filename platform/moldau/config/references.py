"""References to values outside of the file: `${file:/run/secrets/db.properties:password}`.

A reference is `${provider:key}` (such as `${env:TOKEN}`) or `${provider:path:key}`, as for Kafka's
config providers, and may be part of a text. Invariants: the written text stays with the value
(`GivenValue.reference`), and only that text is ever shown; a provider returns only what its
allowlist names. Without an allowlist a provider returns nothing (CVE-2024-31141: clients read any
file through providers that were meant for others): to allow everything is an explicit choice, as
Kafka's broker makes it for providers of its own file. A provider's result is not searched for
references again; a reference that cannot be resolved is a problem, never a password that begins
with `${`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from posixpath import isabs, normpath
from typing import NamedTuple, Protocol

from moldau.config.files import TextFiles
from moldau.config.given import GivenValue, Layer, RawValue
from moldau.config.problems import BadSettings, Problem
from moldau.config.properties import parse_properties
from moldau.errors import ConfigError


class _Reference(NamedTuple):
    """A reference in a text, from `start` to `end`; `path` is empty if it has none."""

    start: int
    end: int
    provider: str
    path: str
    key: str


class ConfigProvider(Protocol):
    """A store of referenced values."""

    def lookup(self, path: str, key: str, /) -> str:
        """Return the value. Raise ConfigError, without the value, if it is missing or forbidden."""
        ...


def resolve_references(layer: Layer, providers: Mapping[str, ConfigProvider]) -> Layer:
    """Return `layer` with every reference replaced. Raise BadSettings with those that cannot be."""
    problems: list[Problem] = []
    resolved = tuple(_resolve(given, providers, problems) for given in layer)
    if problems:
        raise BadSettings(problems)
    return resolved


def _resolve(
    given: GivenValue, providers: Mapping[str, ConfigProvider], problems: list[Problem]
) -> GivenValue:
    def look_up(found: _Reference) -> str:
        provider = providers.get(found.provider)
        if provider is None:
            known = ", ".join(providers) or "none"
            reason = f"no config provider is called {found.provider}"
            problems.append(Problem(given.name, reason, allowed=known, source=given.source))
            return ""
        try:
            return provider.lookup(found.path, found.key)
        except ConfigError as error:
            problems.append(Problem(given.name, str(error), source=given.source))
            return ""

    value: RawValue
    if isinstance(given.value, str):
        written = given.value
        value = _replaced(written, look_up)
    elif given.value is None:
        return given
    else:
        written = ",".join(given.value)
        value = tuple(_replaced(item, look_up) for item in given.value)
    if next(_references(written), None) is None:
        return given
    return replace(given, value=value, reference=written)


def _replaced(text: str, look_up: Callable[[_Reference], str]) -> str:
    parts = []
    at = 0
    for found in _references(text):
        parts += [text[at : found.start], look_up(found)]
        at = found.end
    parts.append(text[at:])
    return "".join(parts)


def _references(text: str) -> Iterator[_Reference]:
    """Yield the references in order. Each character is read once, even if many do not end."""
    end = 0
    while True:
        start = text.find("${", end)
        close = text.find("}", start + 2)
        if start < 0 or close < 0:
            return
        end = close + 1
        provider, colon, rest = text[start + 2 : close].partition(":")
        if colon:
            before, colon, after = rest.partition(":")
            path, key = (before, after) if colon else ("", rest)
            yield _Reference(start, end, provider, path, key)


class EnvironmentProvider:
    """`${env:NAME}`, for variables whose whole name matches `allowed`."""

    def __init__(self, environment: Mapping[str, str], allowed: str = "") -> None:
        self._environment = environment
        try:
            self._allowed = re.compile(allowed)
        except re.error as error:
            raise ConfigError("no pattern", allowlist=allowed, why=str(error)) from error

    def lookup(self, path: str, key: str, /) -> str:
        if path:
            raise ConfigError("an environment variable has no path", path=path)
        if self._allowed.fullmatch(key) is None:
            raise ConfigError("the allowlist does not name this variable", variable=key)
        value = self._environment.get(key)
        if value is None:
            raise ConfigError("the environment variable is not set", variable=key)
        return value


class _AllowedPaths:
    """Directories and files that may be read, compared as paths; links are not followed here."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = tuple(normpath(path) for path in allowed)
        for path in self._allowed:
            if not isabs(path):
                raise ConfigError("an allowed path must be absolute", path=path)

    def check(self, path: str) -> str:
        plain = normpath(path)
        for allowed in self._allowed:
            if plain == allowed or plain.startswith(allowed.rstrip("/") + "/"):
                return plain
        raise ConfigError("the allowlist does not name this path", path=path)


class FileProvider:
    """`${file:/path/to.properties:key}`: one value of a `.properties` file."""

    def __init__(self, files: TextFiles, allowed: Iterable[str] = ()) -> None:
        self._files = files
        self._paths = _AllowedPaths(allowed)

    def lookup(self, path: str, key: str, /) -> str:
        plain = self._paths.check(path)
        entries = parse_properties(_read(self._files, plain), plain)
        for entry in reversed(entries):
            if entry.key == key:
                return entry.value
        raise ConfigError("the file has no such key", file=plain, key=key)


class DirectoryProvider:
    """`${directory:/path:file}`: the whole text of a file, as container secrets are mounted."""

    def __init__(self, files: TextFiles, allowed: Iterable[str] = ()) -> None:
        self._files = files
        self._paths = _AllowedPaths(allowed)

    def lookup(self, path: str, key: str, /) -> str:
        if not key or "/" in key or key in (".", ".."):
            raise ConfigError("a key is the name of a file in the directory", key=key)
        return _read(self._files, self._paths.check(f"{path}/{key}"))


def _read(files: TextFiles, path: str) -> str:
    try:
        return files.read_text(path)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ConfigError("the file cannot be read", file=path, why=why) from error
    except UnicodeDecodeError:
        # Without the cause: a UnicodeDecodeError contains the whole content.
        raise ConfigError("the file is not UTF-8", file=path) from None
