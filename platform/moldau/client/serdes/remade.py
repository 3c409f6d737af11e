"""Objects that are pickled as their constructor's arguments.

    class NumberSerializer(Remade): ...     # pickles as NumberSerializer("int")

What a serde makes of its arguments (compiled schemas, caches, locks) belongs to its process. So it
is pickled as its constructor's arguments and made anew in the other process: by pickle if the
arguments can be pickled, and by cloudpickle also with a lambda among them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Self


class Remade:
    """Base of classes that have an `__init__` of their own."""

    _made: partial[Self]

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        made = super().__new__(cls)
        made._made = partial(cls, *arguments, **named)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made, ()
