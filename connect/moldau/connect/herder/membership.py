"""The leader of the workers, and what this one has to run. No IO."""

from __future__ import annotations

from abc import ABC, abstractmethod

from moldau.connect.herder.plan import Assignment, assigned_alone
from moldau.connect.storage.configs import ConfigImage


class Membership(ABC):
    """This worker's place among the others."""

    generation: int = 0

    @property
    @abstractmethod
    def is_leader(self) -> bool:
        """Whether this worker writes configs."""

    @property
    @abstractmethod
    def leader_url(self) -> str | None:
        """Where the leader's REST API is; None while no worker leads."""

    @abstractmethod
    def assignment(self, image: ConfigImage) -> Assignment:
        """What this worker has to run now."""

    @abstractmethod
    async def start(self) -> None:
        """Take part."""

    async def settled(self) -> None:
        """Returns when the group is in no round, or when that takes too long."""
        return

    @abstractmethod
    def on_configs_changed(self) -> None:
        """Connectors or tasks came or went."""

    @abstractmethod
    async def aclose(self) -> None:
        """Leave."""


class Alone(Membership):
    """The only worker: it leads and runs everything."""

    @property
    def is_leader(self) -> bool:
        return True

    @property
    def leader_url(self) -> str | None:
        return None

    def assignment(self, image: ConfigImage) -> Assignment:
        return assigned_alone(image)

    async def start(self) -> None:
        """There is no group to join."""

    def on_configs_changed(self) -> None:
        """Nothing has to be shared out."""

    async def aclose(self) -> None:
        """There is no group to leave."""
