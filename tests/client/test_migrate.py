"""docs/migrate.md: every name in its tables is one of its library, and its programs run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from typing import Any

import pytest

from moldau.client import ConsumerOptions, ProducerOptions
from moldau.client import sync as moldau_sync
from moldau.testing import SyncEmbeddedBroker
from tests.client.guides import programs, run_programs, text_of

GUIDE = "migrate.md"
ADDRESS = "localhost:9092"
OURS = "moldau.client."
_CELL = re.compile(r"`([^`]+)`")

Name = tuple[str, str, str]
"""A heading, what the column is of, and a name in it."""


def names() -> Iterator[Name]:
    """All of the tables."""
    heading, columns = "", list[str]()
    for line in text_of(GUIDE).splitlines():
        if line.startswith("## "):
            heading, columns = line[3:], []
        elif line.startswith("|") and not line.startswith("|-"):
            cells = [each.strip() for each in line.strip("|").split("|")]
            if not columns:
                columns = cells
                continue
            assert len(cells) == len(columns), line
            for column, cell in zip(columns, cells, strict=True):
                owner, name = _CELL.fullmatch(column), _CELL.fullmatch(cell)
                if owner is not None and cell != "-":
                    assert name is not None, line
                    yield heading, owner[1], name[1]


def found(path: str) -> Any:
    """A module, or a class of one. A library that is not installed skips."""
    home, _, name = path.rpartition(".")
    pytest.importorskip(path.partition(".")[0], reason="run make peers")
    module = import_module(home)
    return getattr(module, name) if hasattr(module, name) else import_module(path)


def is_setting(kind: Any, name: str) -> bool:
    """Whether a client of that library takes it."""
    library = kind.__module__.partition(".")[0]
    if library == "moldau":
        options = ProducerOptions if kind.__name__ == "Producer" else ConsumerOptions
        return name in options.__annotations__ or name in signature(kind).parameters
    if library == "kafka":
        return name in kind.DEFAULT_CONFIG
    if library == "aiokafka":
        return name in signature(kind).parameters
    import confluent_kafka

    # Each setting has a value that it refuses; a name that there is not is refused before.
    group = {"group.id": "g"} if kind.__name__ == "Consumer" else {}
    try:
        kind({**group, name: "-no-such-value-"})
    except (confluent_kafka.KafkaException, TypeError, ValueError) as error:
        return "No such configuration property" not in str(error)
    return True


ALL = list(names())


def test_the_tables_are_read() -> None:
    columns = {owner for _, owner, _ in ALL}
    assert len(columns) == 16
    assert len(ALL) > 280
    assert {heading for heading, _, _ in ALL} == {
        "Producers",
        "Consumers",
        "Admin clients",
        "Settings of producers",
        "Settings of consumers",
        "Errors",
    }


@pytest.mark.parametrize("owner", sorted({owner for _, owner, _ in ALL}))
def test_every_name_is_one_of_its_library(owner: str) -> None:
    kind = found(owner)
    looked_up, missing = 0, []
    for heading, of, name in ALL:
        if of != owner:
            continue
        looked_up += 1
        is_known = is_setting(kind, name) if heading.startswith("Set") else hasattr(kind, name)
        if not is_known:
            missing.append(f"{heading}: {name}")
    assert looked_up >= 9
    assert missing == []


def test_our_names_are_those_for_threads_too() -> None:
    looked_up = 0
    for heading, owner, name in ALL:
        if owner.startswith(OURS) and not heading.startswith("Set"):
            same = getattr(moldau_sync, owner.removeprefix(OURS))
            assert hasattr(same, "close" if name == "aclose" else name), (owner, name)
            looked_up += 1
    assert looked_up > 60


@pytest.mark.real
def test_the_guides_programs_run(
    moldau_broker: SyncEmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("aiokafka", reason="run make peers")
    assert len(programs(GUIDE)) == 3
    run_programs(GUIDE, {ADDRESS: moldau_broker.bootstrap_servers})
    assert capsys.readouterr().out == "b'42' b'three of them'\n" * 3
