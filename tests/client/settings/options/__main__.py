"""The typed keywords of the clients, made of the rows of their settings.

    python -m tests.client.settings.options    # writes all modules of `MODULES` anew

A row becomes a keyword of the name with underscores, typed as what its parser takes: Python's value
or Kafka's text. What else a keyword may be (objects instead of names) is told here; a test holds
the rows, the committed modules and what the clients take together.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from moldau.client.settings import rows
from moldau.client.settings.every_client import METRICS_ROWS
from moldau.client.settings.serdes import DESERIALIZER_ROWS, SERDE_ROWS, SERIALIZER_ROWS
from moldau.config import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    Kind,
    Setting,
    SettingTable,
)
from moldau.config.setting import Absent
from moldau.link.settings import CONNECTION_ROWS
from tests.client.sync.twins import tidy

PLATFORM: Final = Path(__file__).parents[4] / "platform"

OF_KIND: Final[dict[Kind[Any], str]] = {
    BOOLEAN: "bool | str",
    INT: "int | str",
    SHORT: "int | str",
    LONG: "int | str",
    DOUBLE: "float | str",
    STRING: "str",
    CLASS: "str",
    LIST: "str | Sequence[str]",
    PASSWORD: "str | Secret",
}
HOMES: Final = {
    "AssignorGiven": "moldau.client.group.assignors",
    "ConsumerInterceptor": "moldau.client.consumer.interceptors",
    "ProducerInterceptor": "moldau.client.producer.record",
    "RecordPartitioner": "moldau.client.producer.partitioner",
    "Secret": "moldau.config",
    "Sequence": "collections.abc",
}


@dataclass(frozen=True)
class Module:
    """One module with one TypedDict: the keywords of a client, or what two clients share."""

    name: str
    home: str
    """The Python module that has it, below `moldau.client`."""
    of: str
    base: str
    table: SettingTable
    shared: frozenset[str] = frozenset()
    """What the base has."""
    explicit: frozenset[str] = frozenset()
    """What the client has as parameters of its own."""
    types: dict[str, str] = field(default_factory=dict)
    """Of what may be more than text."""

    @property
    def class_name(self) -> str:
        return f"{self.name.capitalize()}Options"

    @property
    def path(self) -> Path:
        return PLATFORM.joinpath("moldau", "client", *self.home.split(".")).with_suffix(".py")

    @property
    def rows(self) -> list[Setting[Any]]:
        return [each for each in self.table if each.name not in self.shared | self.explicit]


def _names(among: Iterable[Setting[Any]]) -> frozenset[str]:
    return frozenset(each.name for each in among)


def _interceptors(kind: str) -> str:
    return f"str | Sequence[str | {kind} | type[{kind}]]"


_CONNECTION: Final = SettingTable(CONNECTION_ROWS)
_REGISTRY: Final = SettingTable(SERDE_ROWS)
_RECORDS: Final = SettingTable((*CONNECTION_ROWS, *METRICS_ROWS, *SERDE_ROWS))
MODULES: Final = (
    Module(
        "connection",
        "settings.connection_options",
        "those of every client",
        "TypedDict",
        _CONNECTION,
    ),
    Module(
        "registry", "settings.registry_options", "those of `SchemaRegistry`", "TypedDict", _REGISTRY
    ),
    Module(
        "record",
        "settings.record_options",
        "those of readers and writers",
        "ConnectionOptions, RegistryOptions",
        _RECORDS,
        shared=_names(_CONNECTION) | _names(_REGISTRY),
    ),
    Module(
        "admin",
        "admin.options",
        "those of `Admin`",
        "ConnectionOptions",
        rows.ADMIN_SETTINGS,
        shared=_names(_CONNECTION),
    ),
    Module(
        "member",
        "group.options",
        "those of `GroupMember`",
        "ConnectionOptions",
        rows.GROUP_MEMBER_SETTINGS,
        shared=_names(_CONNECTION),
    ),
    Module(
        "producer",
        "producer.options",
        "those of `Producer`",
        "RecordOptions",
        rows.PRODUCER_SETTINGS,
        shared=_names(_RECORDS),
        explicit=frozenset(each.name for each in SERIALIZER_ROWS if each.kind is CLASS),
        types={
            "acks": "int | str",
            "interceptor.classes": _interceptors("ProducerInterceptor"),
            "partitioner.class": "str | RecordPartitioner | type[RecordPartitioner] | None",
        },
    ),
    Module(
        "consumer",
        "consumer.options",
        "those of `Consumer`",
        "RecordOptions",
        rows.CONSUMER_SETTINGS,
        shared=_names(_RECORDS),
        explicit=frozenset(each.name for each in DESERIALIZER_ROWS if each.kind is CLASS),
        types={
            "interceptor.classes": _interceptors("ConsumerInterceptor"),
            "partition.assignment.strategy": "str | AssignorGiven | Sequence[AssignorGiven]",
        },
    ),
)


def render(module: Module) -> str:
    """The whole module."""
    keys = [
        f"    {name.replace('.', '_')}: {_type(module, row)}\n{_doc(row, name)}"
        for row in module.rows
        for name in (row.name, *row.aliases)
    ]
    body = "\n".join(keys)
    text = f'''"""Typed keywords of the clients: {module.of}. Made of the settings' rows.

`python -m tests.client.settings.options` makes this module anew.
"""

{_imports(module, body)}


class {module.class_name}({module.base}, total=False):
    """Kafka's settings with underscores for dots."""

{body}'''
    return tidy(text)


def _imports(module: Module, body: str) -> str:
    """No `from __future__ import annotations`: types are looked at by other programs, too."""
    if module.base == "TypedDict":
        lines = ["from typing import TypedDict"]
    else:
        homes = {each.class_name: each.home for each in MODULES}
        bases = module.base.split(", ")
        lines = [f"from moldau.client.{homes[base]} import {base}" for base in bases]
    return "\n".join(
        [*lines, *(f"from {home} import {name}" for name, home in HOMES.items() if name in body)]
    )


def _type(module: Module, row: Setting[Any]) -> str:
    known = module.types.get(row.name)
    if known is not None:
        return known
    return OF_KIND[row.kind] + (" | None" if row.default is None else "")


def _doc(row: Setting[Any], name: str) -> str:
    told = row.doc if name == row.name else f"The same as {row.name}."
    default = None if isinstance(row.default, Absent) else row.write(row.default)
    if default and name == row.name:
        told += f" Default: {default}."
    lines = textwrap.wrap(f'"""{told}"""', 96, break_long_words=False, break_on_hyphens=False)
    return textwrap.indent("\n".join(lines), "    ") + "\n"


def write() -> None:
    """Makes all of them anew."""
    for module in MODULES:
        module.path.write_text(render(module), encoding="utf-8")


if __name__ == "__main__":
    write()
