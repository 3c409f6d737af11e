"""The interface to the group of workers: the leader, and this worker's assignment. No IO."""

from __future__ import annotations

from abc import ABC, abstractmethod

from moldau.connect.herder.plan import Assignment, assigned_alone
from moldau.connect.storage.configs import ConfigImage


class Membership(ABC):
    """This worker's membership in the group of workers."""

    generation: int = 0

    @property
    @abstractmethod
    def is_leader(self) -> bool:
        """Whether this worker is the leader, which writes configs."""

    @property
    @abstractmethod
    def leader_url(self) -> str | None:
        """The URL of the leader's REST API; None while there is no leader."""

    @abstractmethod
    def assignment(self, image: ConfigImage) -> Assignment:
        """Return the connectors and tasks that this worker has to run now."""

    def others_have(self, connector: str) -> bool:
        """Whether another worker may still run a task of this connector, as the leader knows."""
        return False

    @abstractmethod
    async def start(self) -> None:
        """Join the group."""

    async def settled(self) -> None:
        """Wait until the group is in no round, but not for long."""
        return

    @abstractmethod
    def on_configs_changed(self) -> None:
        """Called after connectors or tasks were added or removed."""

    @abstractmethod
    async def aclose(self) -> None:
        """Leave the group."""


class Alone(Membership):
    """The membership of the only worker: it leads and runs everything."""

    @property
    def is_leader(self) -> bool:
        return True

    @property
    def leader_url(self) -> str | None:
        return None

    def assignment(self, image: ConfigImage) -> Assignment:
        return assigned_alone(image)

    async def start(self) -> None:
        """Do nothing: there is no group to join."""

    def on_configs_changed(self) -> None:
        """Do nothing: there are no other workers to share with."""

    async def aclose(self) -> None:
        """Do nothing: there is no group to leave."""
