"""Stores for operators that users write."""

from __future__ import annotations

from typing import Any

from moldau.streams.serdes.types import key_codec, stored_codec
from moldau.streams.state.spec import StoreKind, StoreSpec


class StateStore:
    """A key-value store: its rows survive as a changelog topic, unless `logged` is False."""

    def __init__(self, name: str, *, key: Any = Any, value: Any = Any, logged: bool = True) -> None:
        self.spec = StoreSpec(
            name, StoreKind.KEY_VALUE, key_codec(key), stored_codec(value), is_logged=logged
        )
