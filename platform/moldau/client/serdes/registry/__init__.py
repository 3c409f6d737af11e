"""A client of the Schema Registry: Confluent's REST API, as Confluent, Karapace, Apicurio and
Redpanda serve it.

    from moldau.client.serdes.registry import Schema, SchemaRegistry

    async with SchemaRegistry("http://localhost:8081") as registry:
        schema_id = await registry.register("orders-value", Schema('{"type": "string"}'))

`client` is the door; `schemas` has what goes through it, `naming` says under which subject a schema
is, `http` is the protocol without IO (on h11) and `shell` the connections, retries and waits. h11
on the runtime's network, and not a whole HTTP library: the parser is what must be well kept, and so
the client runs in the simulator like all the rest.
"""

from __future__ import annotations

from moldau.client.serdes.registry.client import SchemaRegistry
from moldau.client.serdes.registry.schemas import (
    Compatibility,
    Config,
    Reference,
    RegisteredSchema,
    RegistryError,
    Schema,
)
from moldau.client.settings.registry_options import RegistryOptions

__all__ = [
    "Compatibility",
    "Config",
    "Reference",
    "RegisteredSchema",
    "RegistryError",
    "RegistryOptions",
    "Schema",
    "SchemaRegistry",
]
