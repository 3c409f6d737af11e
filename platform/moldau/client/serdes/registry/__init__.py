"""A client of the Schema Registry: Confluent's REST API, as Confluent, Karapace, Apicurio and
Redpanda serve it.

    from moldau.client.serdes.registry import Schema, SchemaRegistry

    async with SchemaRegistry("http://localhost:8081") as registry:
        schema_id = await registry.register("orders-value", Schema('{"type": "string"}'))

`client` has the calls; `schemas` has their arguments and answers, `naming` says under which subject
a schema is. Below, `http` has requests and addresses, and `shell` has failover, retries and waits.
"""

from __future__ import annotations

from moldau.client.serdes.registry.client import SchemaRegistry
from moldau.client.serdes.registry.schemas import (
    Compatibility,
    Config,
    RegisteredSchema,
    RegistryError,
)
from moldau.client.settings.options import RegistryOptions
from moldau.values.schema import Reference, Schema

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
