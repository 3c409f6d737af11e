"""The Schema Registry's client for threads.

    with SchemaRegistry("http://localhost:8081") as registry:
        schema_id = registry.register("orders-value", Schema('{"type": "string"}'))
        with Producer(..., value_serializer=AvroSerializer(registry, SCHEMA)) as producer:
            ...

Any number of threads and serdes may use one. Unlike the other blocking clients it connects with the
first request, starts by itself, continues in a child process after a fork (with connections of the
child's own), pickles, and is collected when it is not used any more.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from moldau.client.base.blocking import ClientState
from moldau.client.serdes.registry.client import SchemaRegistry as AsyncSchemaRegistry
from moldau.client.serdes.sync.schema_registry_calls import SchemaRegistryCalls
from moldau.client.settings.options import RegistryOptions
from moldau.config import Settings
from moldau.runtime import Runtime
from moldau.runtime.loop_thread import Errands, Tenant, WeakTenant, check_may_wait

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")


class SchemaRegistry(SchemaRegistryCalls):
    """A client of one registry."""

    kind = "schema registry's client"

    def __init__(
        self,
        settings: Settings | Mapping[str, object] | str | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        **options: Unpack[RegistryOptions],
    ) -> None:
        """Take `settings`, an address or settings by Confluent's names; `options` (underscores for
        dots) override them."""
        self._client = AsyncSchemaRegistry(settings, runtime=None, tls=tls, **options)
        self._tenant = WeakTenant(self)
        super().__init__(self._client.given, {} if tls is None else {"tls": tls})
        self.settings = self._client.settings

    @property
    def asynchronous(self) -> AsyncSchemaRegistry:
        """The asyncio client of the same registry, which serdes use."""
        return self._client

    async def _begin(self, runtime: Runtime) -> None:
        """Do nothing: the client connects with the first request."""

    def _call(
        self,
        coroutine: Coroutine[Any, Any, T],
        *,
        errands: Errands | None = None,
        salvage: Callable[[T], None] | None = None,
    ) -> T:
        if self._state is ClientState.NEW:
            with ExitStack() as unless_started:
                unless_started.callback(coroutine.close)
                self.start()
                unless_started.pop_all()
        return super()._call(coroutine, errands=errands, salvage=salvage)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Waiting calls of other threads fail with RegistryError or
        ClientClosed. No more requests can be made; serdes still work with the schemas they know.
        May be called again, also by several threads at once: each returns when it is closed."""
        if self._state is not ClientState.CLOSED:
            check_may_wait()
        with self._lock:
            if self._state is ClientState.NEW:
                self._state = ClientState.CLOSED
                self._client._close_soon()  # serdes may have opened connections before its start
        self._end(self._client.aclose())

    async def _drop(self) -> None:
        await self._client._registry.aclose()

    def _as_tenant(self) -> Tenant:
        return self._tenant

    def forked(self) -> None:
        """Start again in a forked process, unless it was being closed."""
        was_open = self._state is ClientState.OPEN
        super().forked()
        if self.is_forked:
            self._state = ClientState.NEW if was_open else ClientState.CLOSED

    def __reduce__(self) -> tuple[Any, ...]:
        _, given = self._client.__reduce__()
        return type(self), given
