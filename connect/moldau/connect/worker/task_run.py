"""What a worker is told about one task."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.connect.storage.keys import TargetState
from moldau.deferred import dataclass


@dataclass(frozen=True, slots=True)
class TaskRun:
    """A task as it should run, or as it runs."""

    connector_config: Mapping[str, str]
    config: Mapping[str, str]
    target: TargetState
    generation: int = 0
    """The commit of its task configs, if the start of a newer task fences the older ones."""

    def is_same_work(self, other: TaskRun) -> bool:
        """Whether both have the same configs. A different target alone needs no restart."""
        mine = self.connector_config, self.config, self.generation
        return mine == (other.connector_config, other.config, other.generation)
