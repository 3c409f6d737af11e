"""The assignors that run on the broker: `uniform` and `range`.

A third one is a module with an `Assignor` and a line in `ASSIGNORS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.broker.coordinator.group.consumer.assignors.assignor import Assignor, MemberSpec
from moldau.broker.coordinator.group.consumer.assignors.range import assign_ranges
from moldau.broker.coordinator.group.consumer.assignors.uniform import assign_uniformly

__all__ = ["ASSIGNORS", "Assignor", "MemberSpec"]

ASSIGNORS: Final[Mapping[str, Assignor]] = {
    "uniform": assign_uniformly,
    "range": assign_ranges,
}
"""The assignors, by the names that members and `group.consumer.assignors` use."""
