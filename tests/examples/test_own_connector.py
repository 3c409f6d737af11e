"""The example of a connector of one's own is found, validated and runs."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from moldau.connect.api import (
    OffsetStorageReader,
    SourceTask,
    SourceTaskContext,
    TransactionContext,
)
from moldau.connect.plugins import Catalogue, new_connector, validate
from moldau.plugins import Plugins
from tests.plugins.entry_points import point

FOLDER = Path(__file__).parents[2] / "examples" / "own_connector"


class Offsets(OffsetStorageReader):
    """One stored offset."""

    def __init__(self, stored: dict[str, Any] | None) -> None:
        self.stored = stored

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        return self.stored

    def offsets(
        self, partitions: Sequence[Mapping[str, Any]]
    ) -> list[tuple[Mapping[str, Any], dict[str, Any] | None]]:
        return [(partition, self.stored) for partition in partitions]


class Context(SourceTaskContext):
    """What a worker gives to a task."""

    def __init__(self, stored: dict[str, Any] | None) -> None:
        self._reader = Offsets(stored)

    @property
    def configs(self) -> dict[str, str]:
        return {}

    @property
    def offset_storage_reader(self) -> OffsetStorageReader:
        return self._reader

    @property
    def transaction_context(self) -> TransactionContext | None:
        return None


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalogue]:
    """The plugins that installing the example would bring."""
    monkeypatch.syspath_prepend(str(FOLDER))
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    ((name, target),) = project["entry-points"]["moldau.connectors"].items()
    yield Catalogue(Plugins([point("connectors", name, target, project["name"])]))
    sys.modules.pop("own_connector", None)


def task(catalogue: Catalogue, stored: dict[str, Any] | None) -> SourceTask:
    connector = new_connector(catalogue, "CountSource")
    connector.start({"name": "count", "topic": "numbers"})
    made = connector.task_class()()
    assert isinstance(made, SourceTask)
    made.initialize(Context(stored))
    (config,) = connector.task_configs(4)
    made.start(config)
    return made


def test_it_is_validated(catalogue: Catalogue) -> None:
    config = {"name": "count", "connector.class": "CountSource", "topik": "numbers"}

    infos = validate(catalogue, config)

    assert [error.key for error in infos.errors] == ["topic"]
    assert [warning.key for warning in infos.warnings] == ["topik"]


def test_it_counts_from_where_it_was(catalogue: Catalogue) -> None:
    first = task(catalogue, None)
    records = [*(first.poll() or []), *(first.poll() or [])]

    assert [(record.topic, record.value) for record in records] == [("numbers", 1), ("numbers", 2)]
    after = task(catalogue, records[-1].source_offset).poll()
    assert after is not None
    assert after[0].value == 3


def test_the_connector_is_ten_lines() -> None:
    text = (FOLDER / "own_connector.py").read_text()
    body = text.partition("class CountTask")[2].splitlines()

    assert len([line for line in body if line.strip()]) <= 10
