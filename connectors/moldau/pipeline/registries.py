"""Ask a Schema Registry for the schema of a topic's values."""

from __future__ import annotations

from moldau.errors import MoldauError
from moldau.pipeline.shapes import Shape, schema_shape

_TIMEOUT_MS = 5000


def registered_shape(url: str, topic: str) -> Shape | str:
    """Return what the latest schema of the topic's values says, or why that is not known."""
    from moldau.client.sync import SchemaRegistry

    try:
        with SchemaRegistry(
            url,
            http_connect_timeout_ms=_TIMEOUT_MS,
            http_read_timeout_ms=_TIMEOUT_MS,
            max_retries=0,
        ) as registry:
            found = registry.latest(f"{topic}-value").schema
        return schema_shape(found.type, found.text)
    except (MoldauError, ValueError) as error:
        return str(error)
