"""Settings that are given to Kafka and to ours: what is asked of both, a line for a question.

A line is what `SettingAnswers.java` reads: `accept KIND` or `describe KIND`, then items between
tabs, `where/name=value`. Probes try single values of every row around its bounds; the combinations
of `combinations.txt` try what several settings mean together. A combination is written as changes
of a small broker that works: `all:` and the like say where a value stands, `!name` takes one away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from moldau.broker.settings import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
)
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
    Setting,
    SettingTable,
)

BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}
TABLES: dict[str, SettingTable] = {
    "broker": BROKER_SETTINGS,
    "topic": TOPIC_SETTINGS,
    "group": GROUP_SETTINGS,
    "client-metrics": CLIENT_METRICS_SETTINGS,
}

_OWN = (
    "moldau.",
    "share.retry.",
    "share.dlq.",
    "share.deliver.",
    "remote.storage.encryption.",
    "remote.storage.endpoint",
    "remote.storage.orphan.",
    "remote.storage.path.",
    "remote.storage.region",
)
_OWN_NAMES = frozenset(("remote.storage",))
INTERNAL_TO_KAFKA = frozenset(
    f"{whose}streams.{what}"
    for whose in ("group.", "")
    for what in (
        *("acceptable.recovery.lag", "max.warmup.replicas", "min.task.offset.interval.ms"),
        *("num.warmup.replicas", "task.offset.interval.ms"),
    )
)
"""Settings that Kafka 4.4 has without showing them, and that are offered here."""

# Tried as combinations: single values say little of them, or nothing else would work.
_NOT_PROBED = {"process.roles", "node.id", "broker.id", "controller.listener.names", "listeners"}
_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1


def is_own(name: str) -> bool:
    """Whether a setting is moldau's, and unknown to Kafka."""
    return name.startswith(_OWN) or name in _OWN_NAMES


_WHOLES = ["0", "1", "2", "-1", "-2", "-3", "x", "", "1.5", " 7 ", "+5", "1_0", "0x1"]
_PROBES = {
    BOOLEAN: ["true", "TRUE", "false", "yes", "1", "", " true "],
    SHORT: [*_WHOLES, "32767", "32768"],
    INT: [*_WHOLES, str(_INT_MAX), str(_INT_MAX + 1)],
    LONG: [*_WHOLES, str(_LONG_MAX), str(_LONG_MAX + 1)],
    DOUBLE: ["0", "-0.1", "0.5", ".5", "1", "1.1", "1e3", "x", ""],
    STRING: ["", "x", "X", "a b"],
    LIST: ["", "x", "x,y", "x, y", "x,x", "x,,y", "*", "1:2,3:4", "1:x"],
    PASSWORD: ["", "x"],
    CLASS: [""],
}


def probes(row: Setting[object]) -> list[str]:
    """Values around what is allowed for a row, by its type and by the numbers and words that its
    check names."""
    found = list(_PROBES[row.kind])
    allowed = "" if row.check is None else row.check.allowed
    if row.kind in (SHORT, INT, LONG):
        bounds = [int(number) for number in re.findall(r"-?\d+", allowed)]
        found += [str(bound + step) for bound in bounds for step in (-1, 0, 1)]
    elif row.kind in (STRING, LIST):
        words = re.findall(r"\b[a-zA-Z_0-9]{3,}\b", allowed)
        found += [form(word) for word in words for form in (str, str.lower, str.upper)]
    return list(dict.fromkeys(found))


def line(ask: str, where: dict[str, dict[str, str]]) -> str:
    items = [
        f"{place}/{name}={value}" for place, given in where.items() for name, value in given.items()
    ]
    return "\t".join((ask, *items))


def probe_lines() -> Iterator[tuple[str, str, str, str]]:
    """Kind, name, value, and the question that tries it."""
    for kind, table in TABLES.items():
        place = "file" if kind == "broker" else "own"
        for row in table:
            if row.kind is CLASS or is_own(row.name):
                continue
            if kind == "broker" and row.name in _NOT_PROBED:
                continue
            for value in probes(row):
                where = {"file": dict(BASE)}
                where.setdefault(place, {})[row.name] = value
                yield kind, row.name, value, line(f"accept {kind}", where)


def combination_line(text: str) -> str:
    """The question that one line of COMBINATIONS or DESCRIPTIONS asks."""
    ask, *changes = (part.strip() for part in text.split(" ; "))
    where: dict[str, dict[str, str]] = {"file": dict(BASE)}
    for change in changes:
        if change.startswith("!"):
            del where["file"][change[1:]]
            continue
        place, name, value = re.fullmatch(r"(?:(\w+): )?([^=]+)=(.*)", change).groups()  # type: ignore[union-attr]
        where.setdefault(place or "file", {})[name] = value
    return line(ask, where)


def where_of(question: str) -> tuple[str, str, dict[str, dict[str, str]]]:
    """The question taken apart again: what is asked, of which kind, what is given where."""
    ask, *items = question.split("\t")
    where: dict[str, dict[str, str]] = {}
    for item in items:
        place, _, pair = item.partition("/")
        name, _, value = pair.partition("=")
        where.setdefault(place, {})[name] = value
    verb, kind = ask.split(" ")
    return verb, kind, where
