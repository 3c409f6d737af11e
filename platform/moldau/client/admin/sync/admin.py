"""The admin client for threads: administers a cluster, one method for each action.

    with Admin(bootstrap_servers="localhost:9092") as admin:
        admin.create_topic(NewTopic("orders", partitions=6))
        print(admin.list_topics())

Any number of threads may use one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

from moldau.client.admin.admin import Admin as AsyncAdmin
from moldau.client.admin.sync.admin_calls import AdminCalls
from moldau.runtime import Runtime

if TYPE_CHECKING:
    from moldau.client.settings.options import AdminOptions


class Admin(AdminCalls):
    """An admin client for topics, partitions, settings, brokers and groups."""

    kind = "admin client"

    def __init__(
        self, settings: Mapping[str, object] | None = None, **options: Unpack[AdminOptions]
    ) -> None:
        """Take `settings` by Kafka's names; `options` (underscores for dots) override them."""
        super().__init__(settings, options)
        self._client = self._make()
        self.settings = self._client.settings

    def _make(self, runtime: Runtime | None = None) -> AsyncAdmin:
        settings, options = self._given
        return AsyncAdmin(settings, runtime=runtime, **options)

    async def _begin(self, runtime: Runtime) -> None:
        self._client = self._make(runtime)
        await self._client.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; waiting calls of other threads fail with a KafkaError. May be
        called again, also by several threads at once: each returns when it is closed."""
        self._check_may_close()
        self._end(self._client.aclose())

    async def _drop(self) -> None:
        await self._client._close()
