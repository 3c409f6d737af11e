"""The text of a function while it is being written, with what each of its lines works on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moldau.protocol import wire
from moldau.protocol.failures import Packed, Path, Place

# How names of packers and the like begin, which no local variable may hide.
_OUTSIDE = ("array_", "default_", "make_", "pack_", "unpack_")


class Source:
    """Lines, their places, and the names that they use from outside."""

    def __init__(self, taken: tuple[str, ...]) -> None:
        self.lines: list[str] = []
        self.places: list[Place] = []
        self.names: dict[str, Any] = {}
        self._depth = 0
        self._taken = {*taken, *vars(wire), "bytes", "len", "list", "range"}

    def emit(
        self,
        text: str,
        path: Path = (),
        run: tuple[tuple[int, Path], ...] = (),
        values: tuple[Packed, ...] = (),
    ) -> None:
        """Adds one line that works on the field at `path`, or on a run of fields."""
        assert "\n" not in text
        self.lines.append("    " * self._depth + text)
        self.places.append(Place(path, run, values))

    @contextmanager
    def block(self, head: str, path: Path = ()) -> Iterator[None]:
        """Adds `head` and indents what is emitted inside."""
        self.emit(head, path)
        self._depth += 1
        yield
        self._depth -= 1

    def use(self, name: str, value: Any) -> str:
        """Makes `value` known to the function under `name`."""
        assert self.names.setdefault(name, value) is value or self.names[name] == value
        return name

    def fresh(self, name: str) -> str:
        """An unused name for a local variable: `name`, or `name` with a number."""
        if name.startswith(_OUTSIDE):
            name = f"the_{name}"
        candidate, number = name, 1
        while candidate in self._taken:
            number += 1
            candidate = f"{name}{number}"
        self._taken.add(candidate)
        return candidate

    def text(self) -> str:
        """The whole function."""
        return "\n".join(self.lines) + "\n"

    def compile(self, function: str, filename: str) -> Any:
        """The function, ready to be called."""
        names = dict(self.names)
        exec(compile(self.text(), filename, "exec"), names)  # noqa: S102
        return names[function]
