"""Which files a connector's config may name: those below the directories that the worker names.

A connector's config comes over the REST API, so with a source and a sink of files its author could
read and write each file of the worker's user. A connector class lists the settings that are paths
(`Connector.file_settings`), or finds them (`named_files`); each must be at or below an entry of
`connect.file.directories`, which is empty for a distributed worker. An entry may be an address of
fsspec, as `s3://bucket/logs`.

Invariants: configs are judged with their references resolved, and paths with their links and `..`
resolved. What a worker keeps from before is judged again at each start: its task fails, not the
worker. A link that is put below a named directory later is followed, as is one that a pattern
(`file.glob`) meets: the operator chooses which users may write there.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from moldau.connect.installed.plugins import connector_class, resolved
from moldau.connect.task.settings import Config, listed
from moldau.errors import ConfigError, MoldauError
from moldau.runtime.places import resolved_path

FILE_DIRECTORIES: Final = "connect.file.directories"
WORKING_DIRECTORY: Final = "."
_PATTERN: Final = re.compile(r"[*?\[{]")
_LEADS_OUT: Final = re.compile(r"(^|[/{,])\.\.([/},]|$)|\{[^}]*/")
_UNCLEAR: Final = re.compile(r"::|#|%2[ef]", re.IGNORECASE)
_LOCAL: Final = ("file", "local")


def refused_files(config: Config, worker: Config) -> dict[str, str]:
    """Return the keys of the connector's resolved config that name a file which the worker does not
    allow, each with the reason. A command that only checks a config has no such setting."""
    if FILE_DIRECTORIES not in worker:
        return {}
    named = list(_named(config))
    if not named:
        return {}
    entries = listed(resolved({FILE_DIRECTORIES: worker[FILE_DIRECTORIES]}, worker)[0],
                     FILE_DIRECTORIES)  # fmt: skip
    directories = [_located(each) for each in entries]
    which = "names no directory" if not entries else "names no directory that has this path"
    reason = f"The worker's {FILE_DIRECTORIES} {which} -> add that of the file there"
    return {
        name: reason
        for name, path in named
        if not any(_is_below(_located(path), each) for each in directories)
    }


def check_files(config: Config, worker: Config) -> None:
    """Check a resolved config before a connector or task is made of it. Raise ConfigError."""
    for name, reason in refused_files(config, worker).items():
        raise ConfigError(reason, setting=name)


def with_own_files(worker: Config, configs: Iterable[Mapping[str, str | None]]) -> str:
    """Return the worker's list with what configs of the operator's own files name; without a list,
    with the working directory."""
    entries = listed({FILE_DIRECTORIES: WORKING_DIRECTORY, **worker}, FILE_DIRECTORIES)
    own = [_without_pattern(path) for each in configs for _, path in _named(each)]
    return ",".join(dict.fromkeys((*entries, *own)))


def _named(config: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """Yield the settings that name files, with their paths. A class that is not installed is a
    problem that is found elsewhere."""
    given = {name: value.strip() for name, value in config.items() if value}
    try:
        found = connector_class(given).named_files(given)
    except MoldauError:
        return
    for name, paths in found.items():
        each = (paths,) if isinstance(paths, str) else paths
        yield from ((name, path) for path in each if path)


def _without_pattern(path: str) -> str:
    """Return the directory that all files of a pattern are below; a plain path as it is."""
    found = _PATTERN.search(path)
    return path if found is None else posixpath.dirname(path[: found.start()]) or _root(path)


def _root(path: str) -> str:
    return "/" if path.startswith("/") else WORKING_DIRECTORY


def _located(path: str) -> str | None:
    """Return the place of a path or pattern with links resolved; None for what may lead out of
    it, and for an address that readers understand differently."""
    fixed = _without_pattern(path)
    if _LEADS_OUT.search(path[len(fixed) :]):
        return None
    scheme, is_address, place = fixed.partition("://")
    if not is_address:
        return resolved_path(fixed)
    if _UNCLEAR.search(fixed):
        return None
    if scheme.lower() in _LOCAL:
        # Before the first slash is a host for some readers, and a folder or `~` for others.
        return resolved_path(place) if place.startswith("/") else None
    if ".." in place.split("/"):
        return None
    return f"{scheme.lower()}://{posixpath.normpath(place)}"


def _is_below(place: str | None, directory: str | None) -> bool:
    if place is None or directory is None:
        return False
    return place == directory or place.startswith(f"{directory.rstrip('/')}/")
