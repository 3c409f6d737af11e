"""JSON as a serde: plain values, or instances of a type (`moldau.values.json.typed`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from moldau.client.serdes.contract import Place
from moldau.client.serdes.remade import Remade
from moldau.values.json.typed import json_reader, read_json, write_json

T = TypeVar("T")


class JsonSerializer:
    """Writes plain values, models, dataclasses and structs as JSON."""

    def __call__(self, value: Any, place: Place, /) -> bytes:
        return write_json(value)


class JsonDeserializer(Remade, Generic[T]):
    """Reads JSON as plain values, or as an instance of `type`."""

    def __init__(self, type: type[T] | None = None) -> None:
        self._read: Callable[[bytes], T] = read_json if type is None else json_reader(type)

    def __call__(self, data: bytes, place: Place, /) -> T:
        return self._read(data)
