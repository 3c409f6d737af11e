"""The Schema Registry for threads.

    with SchemaRegistry("http://localhost:8081") as registry:
        schema_id = registry.register("orders-value", Schema('{"type": "string"}'))
        with Producer(..., value_serializer=AvroSerializer(registry, SCHEMA)) as producer:
            ...

Any number of threads may use one, and any number of serdes. Unlike the other blocking clients it
connects when it is first asked, starts by itself, goes on in a child process after a fork (on
connections of the child's own), and pickles.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.client.serdes.registry.client import SchemaRegistry as AsyncSchemaRegistry
from moldau.client.sync.client import State
from moldau.client.sync.schema_registry_calls import SchemaRegistryCalls
from moldau.config import Settings
from moldau.runtime import Runtime
from moldau.runtime.loop_thread import Errands

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
        **options: object,
    ) -> None:
        """`settings` are an address, or settings by Confluent's names; `options` the same with
        underscores."""
        self._client = AsyncSchemaRegistry(settings, runtime=None, tls=tls, **options)
        super().__init__(self._client.given, {} if tls is None else {"tls": tls})
        self.settings = self._client.settings

    @property
    def asynchronous(self) -> AsyncSchemaRegistry:
        """The same for event loops: the one that serdes use."""
        return self._client

    async def _begin(self, runtime: Runtime) -> None:
        """It connects when it is asked."""

    def _call(
        self,
        coroutine: Coroutine[Any, Any, T],
        *,
        errands: Errands | None = None,
        salvage: Callable[[T], None] | None = None,
    ) -> T:
        if self._state is State.NEW:
            self.start()
        return super()._call(coroutine, errands=errands, salvage=salvage)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections; who still waits hears of it. What never changes may be used on,
        nothing is asked any more. May be called again."""
        if self._thread is not None:
            self._thread.check_may_wait()
        if self._state is State.NEW:
            self.start()  # serdes may have connected without it
        self._end(self._client.aclose())

    def forked(self) -> None:
        """This is another process, where it begins anew."""
        super().forked()
        self._state = State.NEW

    def __reduce__(self) -> tuple[Any, ...]:
        _, given = self._client.__reduce__()
        return type(self), given
