"""The errors of values that do not fit their schemas, or cannot be read."""

from __future__ import annotations

from moldau.errors import BadData, MoldauError


class SerializationFailed(MoldauError):
    """The serializer could not convert a key or value to bytes. Nothing was sent."""


class DeserializationFailed(BadData):
    """The deserializer could not convert the key or value of a record that was read."""


def told(error: BaseException) -> str:
    """Return the message of an error without its facts; if it is not ours, with its class."""
    if isinstance(error, MoldauError):
        return error.reason
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
