"""Types as plain data: the format of their bytes, and their JSON Schema."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from moldau.streams.serdes.codec import Codec


def value_type(codec: Codec, side: Literal["read", "written"]) -> dict[str, Any] | None:
    """Return the format of a codec, `text`, `bytes` or `json`, and the schema of JSON.

    Return None for values without a declared type. `is_lax`: numbers may be read from texts."""
    kind = codec.kind
    if kind is None:
        return None
    if kind is str or kind is bytes:
        return {"format": "text" if kind is str else "bytes"}
    if hasattr(kind, "model_json_schema"):
        is_read = side == "read"
        mode = "validation" if is_read else "serialization"
        schema = kind.model_json_schema(mode=mode, by_alias=is_read)
        return {"format": "json", "schema": schema, "is_lax": is_read}
    try:
        return {"format": "json", "schema": msgspec.json.schema(kind)}
    except (TypeError, RuntimeError):  # a type of the user's own, which JSON Schema cannot describe
        return {"format": "json"}
