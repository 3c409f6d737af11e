"""The parts of the admin client. Each is imported when it is first used, with the messages of its
APIs: `moldau topic list` must not load those of groups and of reassignments."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.client.admin.cluster import Brokers
    from moldau.client.admin.configs import Configs
    from moldau.client.admin.groups import Groups
    from moldau.client.admin.partitions import Partitions
    from moldau.client.admin.progress import Progress
    from moldau.client.admin.requests import Requests
    from moldau.client.admin.topics import Topics


class Parts:
    """All parts of one admin client; they share its requests."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    @cached_property
    def brokers(self) -> Brokers:
        from moldau.client.admin.cluster import Brokers

        return Brokers(self._requests)

    @cached_property
    def configs(self) -> Configs:
        from moldau.client.admin.configs import Configs

        return Configs(self._requests)

    @cached_property
    def groups(self) -> Groups:
        from moldau.client.admin.groups import Groups

        return Groups(self._requests)

    @cached_property
    def partitions(self) -> Partitions:
        from moldau.client.admin.partitions import Partitions

        return Partitions(self._requests)

    @cached_property
    def progress(self) -> Progress:
        from moldau.client.admin.progress import Progress

        return Progress(self._requests, self.topics, self.groups)

    @cached_property
    def topics(self) -> Topics:
        from moldau.client.admin.topics import Topics

        return Topics(self._requests)
