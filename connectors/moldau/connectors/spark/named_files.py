"""Which files a Spark connector's config names: for the worker's `connect.file.directories`.

Paths and addresses are given in Hadoop's forms, and returned in those of the worker's list:
`file:/data` is `/data`, and `hdfs:/data` is `hdfs:///data`. A backslash is left out, because a
pattern of Hadoop takes the character after it literally.

Named are the settings that are places, the options that are, databases that are files, and in SQL
the tables that are files: csv.`/data/in`. Of a place of checkpoints it is the connector's own
folder there. What SQL, functions and jars do beyond that is code, and no file that a config names.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

_CHECKPOINTS: Final = "checkpoint.location"
_PLACES: Final = ("sink.path", "source.path")
_QUERIES: Final = ("query", "transforms.sql", "source.table")
_OPTIONS: Final = ("sink.option.", "source.option.")
_DATABASES: Final = ("jdbc.url", "sink.option.uri", "source.option.uri")
_PATH_OPTIONS: Final = frozenset({
    "basepath", "badrecordspath", "checkpointlocation", "location", "path", "paths",
    "sourcearchivedir", "warehouse",
})  # fmt: skip
_FILE: Final = re.compile(r"file:(?!//)", re.IGNORECASE)
_WITHOUT_HOST: Final = re.compile(r"([a-z][a-z0-9+.-]*):(?=/(?!/))", re.IGNORECASE)
_IN_SQL: Final = re.compile(r"\.\s*`((?:[^`]|``)+)`")


def named_files(props: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the settings that name files, with the paths and addresses."""
    found: dict[str, list[str]] = {}
    for name, place in _named(props):
        found.setdefault(name, []).append(place)
    return found


def _named(props: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in props.items():
        if name == _CHECKPOINTS:
            # The connector's folder there has its name, which may have slashes.
            folder = _place(text)
            connector = props.get("name", "")
            yield name, posixpath.join(folder, connector)
            yield name, f"{folder}/{connector}"
        elif name in _PLACES:
            yield name, _place(text)
        elif name in _QUERIES:
            tables = [each.replace("``", "`") for each in _IN_SQL.findall(text)]
            yield from ((name, _place(each)) for each in tables if _is_place(each))
        elif name in _DATABASES and _file_of(text) is not None:
            yield name, _file_of(text) or ""
        elif name.startswith(_OPTIONS) and name not in _DATABASES:
            option = name.partition("option.")[2].lower()
            if option in _PATH_OPTIONS or _is_local(text):
                yield name, _place(text)


def _place(text: str) -> str:
    text = text.strip().replace("\\", "")
    return _WITHOUT_HOST.sub(r"\1://", _FILE.sub("", text, count=1), count=1)


def _is_place(table: str) -> bool:
    """Whether a table's name is the place of a file: a plain name has no slash and no scheme."""
    return "/" in table or ":" in table


def _is_local(text: str) -> bool:
    """Whether the value of any option is a path of this machine."""
    text = text.strip()
    return text.startswith(("/", "~")) or text.lower().startswith("file:") or "../" in text


def _file_of(address: str) -> str | None:
    """Return the file of a database's address; None if it is none, or cannot be opened here."""
    try:
        found: str | None = import_module("moldau.connectors.jdbc.address").file_of(address)
    except ImportError:
        return None
    return found
