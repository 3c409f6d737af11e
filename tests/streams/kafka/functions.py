"""The functions that topologies name: the same as in StreamsAnswers.java, on text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.streams import Context, Record, Windowed

Text = str | None


def text(value: Any) -> Text:
    """A key or value as an output shows it; windows as key[start,end)."""
    if isinstance(value, Windowed):
        end = "~" if value.end == 2**63 - 1 else value.end
        return f"{value.key}[{value.start},{end}]"
    return None if value is None else str(value)


def _first(_: Any, value: Text) -> Text:
    return None if value is None else value[:1]


def _last(_: Any, value: Text) -> Text:
    return None if value is None else value[-1:]


def _value(_: Any, value: Text) -> Text:
    return value


def _key(key: Any, _: Text) -> Text:
    return text(key.key if isinstance(key, Windowed) else key)


def _window(key: Any, _: Text) -> Text:
    return text(key)


def _plus(_: Any, value: Text) -> Text:
    return None if value is None else f"{value}+"


def _plus_null(_: Any, value: Text) -> Text:
    return "none" if value is None else f"{value}+"


def _null_x(_: Any, value: Text) -> Text:
    return None if value is None or value.startswith("x") else value


def _keyed(key: Any, value: Text) -> Text:
    return f"{_null(text(key))}:{_null(value)}"


def _null(value: Text) -> str:
    return "null" if value is None else value


def _on_text(function: Callable[[Any, Text], Any]) -> Callable[[Any, Any], Any]:
    return lambda key, value: function(key, text(value))


MAPPERS: dict[str, Callable[[Any, Any], Any]] = {
    "first": _on_text(_first),
    "last": _on_text(_last),
    "value": _on_text(_value),
    "key": _on_text(_key),
    "window": _on_text(_window),
    "plus": _on_text(_plus),
    "plus-null": _on_text(_plus_null),
    "null-x": _on_text(_null_x),
    "keyed": _on_text(_keyed),
    "parts": lambda _, value: [] if value is None else value.split(","),
}

PREDICATES: dict[str, Callable[[Any, Any], bool]] = {
    "null": lambda _, value: value is None,
    "has-x": lambda _, value: value is not None and "x" in str(value),
    "no-key": lambda key, _: key is None,
    "low": lambda _, value: value is not None and str(value) < "5",
    "key-a": lambda key, _: key is not None and str(text(key)).startswith("a"),
}


def joiner(left: Any, right: Any) -> Text:
    """Both values; None if the left one begins with an n."""
    found = f"{'-' if left is None else left}/{'-' if right is None else right}"
    return None if found.startswith("n") else found


def add(so_far: Text, value: Any) -> Text:
    """The aggregate and the value; an x deletes it."""
    return None if value == "x" else f"{_null(so_far)}{'~' if value is None else value}"


def marked(mark: str) -> Callable[[Text, Any], Text]:
    """As `add`, each value with the mark of its stream."""
    return lambda so_far, value: add(so_far, mark + _null(value))


def remove(so_far: Text, value: Any) -> Text:
    return f"{_null(so_far)}-{value}"


def merge(one: Text, other: Text) -> Text:
    return f"({_null(one)},{_null(other)})"


def reduce(one: Text, other: Any) -> Text:
    return None if other == "x" else f"{_null(one)}{'~' if other is None else other}"


class Changed:
    """Passes on what is not the last value of its key."""

    def __init__(self, context: Context, store: str) -> None:
        self._context, self._store = context, context.store(store)

    def process(self, record: Record) -> None:
        if self._store.get(record.key) != record.value:
            self._context.forward(record)
        self._store.put(record.key, record.value)


class Ticking:
    """Gathers the values of each key, and gives them out at each punctuation."""

    def __init__(self, context: Context, store: str, by: Any, interval: int) -> None:
        self._context, self._store = context, context.store(store)
        context.schedule(interval, self._tick, by=by)

    def _tick(self, now_ms: int) -> None:
        rows = list(self._store.items())
        self._context.forward(Record("tick", str(len(rows)), now_ms))
        for key, value in rows:
            self._store.delete(key)
            self._context.forward(Record(key, value, now_ms))

    def process(self, record: Record) -> None:
        self._store.put(record.key, self._store.get(record.key, "") + record.value)
