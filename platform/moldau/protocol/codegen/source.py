"""The text of a function that is being generated, with the place that each line works on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moldau.protocol import wire
from moldau.protocol.failures import FieldPosition, PackedValue, Path

# The prefixes of packers and other outside names, which no local variable may hide.
_OUTSIDE = ("array_", "default_", "make_", "pack_", "unpack_")


class Source:
    """The lines of a function, their places, and the outside names that they use."""

    def __init__(self, taken: tuple[str, ...]) -> None:
        self.lines: list[str] = []
        self.places: list[FieldPosition] = []
        self.names: dict[str, Any] = {}
        self._depth = 0
        self._taken = {*taken, *vars(wire), "bytes", "len", "list", "range"}

    def emit(
        self,
        text: str,
        path: Path = (),
        run: tuple[tuple[int, Path], ...] = (),
        values: tuple[PackedValue, ...] = (),
    ) -> None:
        """Add one line that works on the field at `path`, or on a run of fields."""
        assert "\n" not in text
        self.lines.append("    " * self._depth + text)
        self.places.append(FieldPosition(path, run, values))

    @contextmanager
    def block(self, head: str, path: Path = ()) -> Iterator[None]:
        """Add `head` and indent the lines that are emitted inside."""
        self.emit(head, path)
        self._depth += 1
        yield
        self._depth -= 1

    def use(self, name: str, value: Any) -> str:
        """Make `value` available to the function under `name`, and return the name."""
        assert self.names.setdefault(name, value) is value or self.names[name] == value
        return name

    def fresh(self, name: str) -> str:
        """Return an unused name for a local variable: `name`, or `name` with a number."""
        if name.startswith(_OUTSIDE):
            name = f"the_{name}"
        candidate, number = name, 1
        while candidate in self._taken:
            number += 1
            candidate = f"{name}{number}"
        self._taken.add(candidate)
        return candidate

    def text(self) -> str:
        """Return the text of the whole function."""
        return "\n".join(self.lines) + "\n"

    def compile(self, function: str, filename: str) -> Any:
        """Return the compiled function."""
        names = dict(self.names)
        exec(compile(self.text(), filename, "exec"), names)  # noqa: S102
        return names[function]
