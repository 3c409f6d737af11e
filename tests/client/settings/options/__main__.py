"""The typed keywords of the clients, made of the rows of their settings.

    python -m tests.client.settings.options    # writes all modules of `KEYWORDS` anew

A row becomes a keyword of the name with underscores, typed as Python's value of it. Kafka's text,
such as "5000", is read too, but a checker refuses it: text belongs into a mapping or a file. What
else a keyword may be (objects instead of names) is told here. What a
setting does stands in its row and in docs/client-settings.md, not beside the keyword. A test holds
the rows, the committed modules and what the clients take together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from moldau.client.settings import producer as producing
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
from moldau.link.security import MECHANISMS
from moldau.link.security_settings import SECURITY_ROWS, sasl_mechanism
from moldau.link.settings import CONNECTION_ROWS
from tests.client.sync.twins import tidy

PLATFORM: Final = Path(__file__).parents[4] / "platform"

OF_KIND: Final[dict[Kind[Any], str]] = {
    BOOLEAN: "bool",
    INT: "int",
    SHORT: "int",
    LONG: "int",
    DOUBLE: "float",
    STRING: "str",
    CLASS: "str",
    LIST: "str | Sequence[str]",
    PASSWORD: "str | Secret",
}
HOMES: Final = {
    "AssignorGiven": "moldau.client.group.assignors",
    "ConsumerInterceptor": "moldau.client.base.interceptor",
    "GivenTokens": "moldau.link.login.token",
    "Literal": "typing",
    "ProducerInterceptor": "moldau.client.producer.record",
    "RecordPartitioner": "moldau.client.producer.partitioner",
    "Secret": "moldau.config",
    "Sequence": "collections.abc",
}


@dataclass(frozen=True)
class Keywords:
    """One TypedDict: the keywords of a client, or what two clients share."""

    name: str
    home: str
    """The module that has it, below `moldau.client`, or below `moldau` if it begins with link."""
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
    def rows(self) -> list[Setting[Any]]:
        return [each for each in self.table if each.name not in self.shared | self.explicit]


def _names(among: Iterable[Setting[Any]]) -> frozenset[str]:
    return frozenset(each.name for each in among)


def _interceptors(kind: str) -> str:
    return f"str | Sequence[str | {kind} | type[{kind}]]"


def choices_of(row: Setting[Any]) -> tuple[str, ...]:
    """All texts that a setting may have, in the order of its row, if these are few. That of
    mechanisms is checked with the rest of a login."""
    if row is sasl_mechanism:
        return MECHANISMS
    return () if row.check is None else row.check.choices


def _literal(row: Setting[Any], *numbers: int) -> str:
    """The type of a setting with choices."""
    words = [f'"{each}"' for each in choices_of(row)]
    return f"Literal[{', '.join([*words, *map(str, numbers)])}]"


_LINK_HOME: Final = "link.security_options"
_SECURITY: Final = SettingTable(SECURITY_ROWS)
_CONNECTION: Final = SettingTable(CONNECTION_ROWS)
_REGISTRY: Final = SettingTable(SERDE_ROWS)
_RECORDS: Final = SettingTable((*CONNECTION_ROWS, *METRICS_ROWS, *SERDE_ROWS))
KEYWORDS: Final = (
    Keywords(
        "security",
        _LINK_HOME,
        "encryption and logins",
        "TypedDict",
        _SECURITY,
        types={"oauth": "GivenTokens | str | None"},
    ),
    Keywords(
        "client",
        "settings.options",
        "every client",
        "SecurityOptions",
        _CONNECTION,
        shared=_names(_SECURITY),
    ),
    Keywords("registry", "settings.options", "`SchemaRegistry`", "TypedDict", _REGISTRY),
    Keywords(
        "record",
        "settings.options",
        "readers and writers",
        "ClientOptions, RegistryOptions",
        _RECORDS,
        shared=_names(_CONNECTION) | _names(_REGISTRY),
    ),
    Keywords(
        "admin",
        "settings.options",
        "`Admin`",
        "ClientOptions",
        rows.ADMIN_SETTINGS,
        shared=_names(_CONNECTION),
    ),
    Keywords(
        "member",
        "group.options",
        "`GroupMember`",
        "ClientOptions",
        rows.GROUP_MEMBER_SETTINGS,
        shared=_names(_CONNECTION),
    ),
    Keywords(
        "producer",
        "producer.options",
        "`Producer`",
        "RecordOptions",
        rows.PRODUCER_SETTINGS,
        shared=_names(_RECORDS),
        explicit=frozenset(each.name for each in SERIALIZER_ROWS if each.kind is CLASS),
        types={
            "acks": _literal(producing.acks, -1, 0, 1),
            "interceptor.classes": _interceptors("ProducerInterceptor"),
            "partitioner.class": "str | RecordPartitioner | type[RecordPartitioner] | None",
        },
    ),
    Keywords(
        "consumer",
        "consumer.options",
        "`Consumer`",
        "RecordOptions",
        rows.CONSUMER_SETTINGS,
        shared=_names(_RECORDS),
        explicit=frozenset(each.name for each in DESERIALIZER_ROWS if each.kind is CLASS),
        types={
            "interceptor.classes": _interceptors("ConsumerInterceptor"),
            "auto.offset.reset": 'Literal["earliest", "latest", "none"]',
            "partition.assignment.strategy": "str | AssignorGiven | Sequence[AssignorGiven]",
        },
    ),
    Keywords(
        "share",
        "consumer.share.options",
        "`ShareConsumer`",
        "RecordOptions",
        rows.SHARE_CONSUMER_SETTINGS,
        shared=_names(_RECORDS),
        explicit=frozenset(each.name for each in DESERIALIZER_ROWS if each.kind is CLASS),
    ),
)
HOMES_OF_KEYWORDS: Final = tuple(dict.fromkeys(each.home for each in KEYWORDS))


def path_of(home: str) -> Path:
    return PLATFORM.joinpath(*module_of(home).split(".")).with_suffix(".py")


def module_of(home: str) -> str:
    return f"moldau.{home}" if home == _LINK_HOME else f"moldau.client.{home}"


def render(home: str) -> str:
    """The whole module."""
    chosen = [each for each in KEYWORDS if each.home == home]
    classes = "\n\n".join(map(_class, chosen))
    text = f'''"""Typed keywords of the clients; docs/client-settings.md says what each one does.

`python -m tests.client.settings.options` makes this module of the settings' rows.
"""

{_imports(chosen, classes)}


{classes}'''
    return tidy(text)


def _class(keywords: Keywords) -> str:
    body = "\n".join(
        f"    {name.replace('.', '_')}: {_type(keywords, row)}"
        for row in keywords.rows
        for name in (row.name, *row.aliases)
    )
    head = f"class {keywords.class_name}({keywords.base}, total=False):"
    return f'{head}\n    """Those of {keywords.of}."""\n\n{body}\n'


def _imports(chosen: list[Keywords], text: str) -> str:
    """No `from __future__ import annotations`: types are looked at by other programs, too."""
    here = {each.class_name for each in chosen}
    homes = {each.class_name: each.home for each in KEYWORDS}
    bases = {base for each in chosen for base in each.base.split(", ")} - here - {"TypedDict"}
    lines = [f"from {module_of(homes[base])} import {base}" for base in sorted(bases)]
    if "TypedDict" in text:
        lines.append("from typing import TypedDict")
    return "\n".join(
        [*lines, *(f"from {home} import {name}" for name, home in HOMES.items() if name in text)]
    )


def _type(keywords: Keywords, row: Setting[Any]) -> str:
    known = keywords.types.get(row.name)
    if known is not None:
        return known
    found = _literal(row) if choices_of(row) else OF_KIND[row.kind]
    return found + (" | None" if row.default is None else "")


def write() -> None:
    """Makes all of them anew."""
    for home in HOMES_OF_KEYWORDS:
        path_of(home).write_text(render(home), encoding="utf-8")


if __name__ == "__main__":
    write()
