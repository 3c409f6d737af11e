"""Foldings as functions, for operators with code of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.streams.plan.functions import Folding


class Folds:
    """The expressions of a folding as functions. None stands for no aggregate yet."""

    def __init__(self, folding: Folding) -> None:
        self._functions = dict(folding.functions)
        self.skips_null = folding.skips_null
        self._add = self._made("old, key, value", folding.add)
        if folding.first is not None:
            first = folding.first
        else:
            assert folding.initial is not None
            first = folding.add.replace("{old}", folding.initial)
        self._first = self._made("old, key, value", first)
        self._remove = self._made("old, key, value", folding.remove or "None")
        self._initial = None
        if folding.first is None and folding.initial is not None:
            self._initial = self._made("", folding.initial)
        self._merge = self._made("old, other, key", folding.merge or "None")
        self.result: Callable[[Any], Any] | None = None
        if folding.result is not None:
            self.result = self._made("old", folding.result)

    def add(self, old: Any, key: Any, value: Any) -> Any:
        return self._first(old, key, value) if old is None else self._add(old, key, value)

    def remove(self, old: Any, key: Any, value: Any) -> Any:
        return self._remove(old, key, value)

    def merge(self, old: Any, other: Any, key: Any) -> Any:
        """Merge `other` into `old`, or into the initial value if there is none."""
        if old is None:
            if self._initial is None:
                return other
            old = self._initial()
        return self._merge(old, other, key)

    def seen(self, value: Any) -> Any:
        """Return a stored value as later steps see it."""
        return value if value is None or self.result is None else self.result(value)

    def _made(self, parameters: str, text: str) -> Callable[..., Any]:
        names = {name: name for name in self._functions} | {
            name: name for name in ("old", "other", "key", "value")
        }
        source = f"lambda {parameters}: {text.format_map(names)}"
        made: Callable[..., Any] = eval(source, dict(self._functions))  # noqa: S307
        return made
