"""Transforms change records one by one; predicates choose the records that a transform sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeVar

from moldau.connect.api.plugin import Plugin
from moldau.connect.api.record import ConnectRecord

R = TypeVar("R", bound=ConnectRecord)


class Transformation(Plugin, ABC):
    """A single message transform. One instance serves one task, on one thread."""

    def configure(self, props: Mapping[str, str]) -> None:
        """`props` without the prefix `transforms.<name>.`."""
        self.config = self.config_model.of(props)

    @abstractmethod
    def apply(self, record: R) -> R | None:
        """The changed record, the record itself, or None to drop it. Raises DataError."""

    def close(self) -> None:
        """Release what was opened."""
        return


class Predicate(Plugin, ABC):
    """A question about a record."""

    def configure(self, props: Mapping[str, str]) -> None:
        """`props` without the prefix `predicates.<name>.`."""
        self.config = self.config_model.of(props)

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Whether the transform applies to this record."""

    def close(self) -> None:
        """Release what was opened."""
        return
