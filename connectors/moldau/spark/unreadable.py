"""Say what happens to a key or value that cannot be read: it is null, or it ends the query."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from moldau.errors import ConfigError

_FORMAT_NAMES: Final = {"avro": "Avro", "protobuf": "Protobuf", "json": "JSON"}
_SHOWN_BYTES: Final = 80


class UnreadableValue(ConfigError):
    """A key or value does not fit its schema, and `value.mode=failfast` ends the query."""


class UnreadablePolicy(NamedTuple):
    """What to do with a key or value that cannot be read: nothing, or end the query."""

    what: str
    format: str
    is_strict: bool = False

    def __call__(self, value: bytes, why: str | None = None) -> None:
        """Raise UnreadableValue if such a value must end the query. `why` is part of the error."""
        if not self.is_strict:
            return
        shown = json.dumps(value[:_SHOWN_BYTES].decode("utf-8", "replace"))
        raise UnreadableValue(
            f"a {self.what} is not {_FORMAT_NAMES[self.format]} of its schema ({self.what}.schema, "
            f"{self.what}.registry): set value.mode=permissive to read it as null",
            value=shown,
            **({} if why is None else {"why": why}),
        )
