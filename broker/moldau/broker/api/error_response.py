"""A response with nothing but an error."""

from __future__ import annotations

from moldau.errors.codes import KafkaError
from moldau.protocol.declare import Response
from moldau.protocol.messages import response_class


def error_response(key: int, version: int, error: KafkaError) -> Response | None:
    """Return the response with this error in `error_code`; None if the API has no such field."""
    cls = response_class(key)
    fields = {field.name: field for field in cls.spec.fields if field.is_present(version)}
    if "error_code" not in fields:
        return None
    values = {name: field.make_default() for name, field in fields.items() if field.is_required}
    values["error_code"] = error.code
    if "error_message" in fields:
        values["error_message"] = error.reason
    return cls(**values)
