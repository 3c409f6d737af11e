"""Objects that travel as how they were made.

    class NumberSerializer(Remade): ...     # pickles as NumberSerializer("int")

What a serde has made of its arguments (compiled schemas, caches, locks) belongs to its process. So
it pickles as its constructor's arguments, and is made anew where it arrives: by pickle if these
pickle, and by cloudpickle also with a lambda among them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Self


class Remade:
    """For classes that have an `__init__` of their own."""

    _made: partial[Self]

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        made = super().__new__(cls)
        made._made = partial(cls, *arguments, **named)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made, ()
