"""The health of a node, and what tells others about a node. Costs a process next to no imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from moldau.broker.exposition.scrape import ScrapedNode


class Health(NamedTuple):
    """Whether the node works, whether it serves clients, and what to say about it."""

    is_alive: bool
    is_ready: bool
    text: str


STARTING = Health(is_alive=True, is_ready=False, text="starting")


class Observable(Protocol):
    """A node that is started."""

    def health(self) -> Health: ...

    def observed(self) -> ScrapedNode: ...


class Observer(Protocol):
    """What tells others about a node."""

    def watch(self, node: Observable) -> None:
        """Begin: the node is started."""
        ...
