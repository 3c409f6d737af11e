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
        """Set the transform up. `props` have no prefix `transforms.<name>.`."""
        self.config = self.config_model.of(props)

    @abstractmethod
    def apply(self, record: R) -> R | None:
        """Return a changed record, the record itself, or None to drop it. May raise DataError."""

    def close(self) -> None:
        """Release all resources."""
        return


class Predicate(Plugin, ABC):
    """A condition on records. One instance serves one task."""

    def configure(self, props: Mapping[str, str]) -> None:
        """Set the predicate up. `props` have no prefix `predicates.<name>.`."""
        self.config = self.config_model.of(props)

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Whether this record meets the condition."""

    def close(self) -> None:
        """Release all resources."""
        return
