"""What a start of a process leaves for later: methods of dataclasses, patterns, large libraries.

    @dataclass(frozen=True, slots=True)
    class Position: ...

    zstandard = deferred_module("zstandard")
    _NAME: Final = deferred_pattern(r"[a-z]+")

`dataclasses` writes and compiles up to six methods for each class at its import. A broker imports
170 such classes, a command 40, and most make no object in a short life. Here a class has its fields
at once, and a `Deferred` in the place of each method, which makes it when it is first looked up.

A pattern is compiled, and a deferred module imported, when an attribute of it is first read. A
deferred module is for libraries of others that cost a start 5 ms or more, and that most processes
never call.

Invariants: fields, `replace`, `asdict`, `match`, pickling, copies and the errors of wrong calls are
those of `dataclasses`. A class with a dataclass among its bases, methods of its own for equality,
hashes or assignment, or an option that is not in `_DEFERRING`, is one of `dataclasses` itself. A
library that is not installed is reported at the start, not when it is first used.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, AnyStr, Final

_DEFERRING: Final = frozenset(("frozen", "slots", "eq", "kw_only"))
_OWN: Final = frozenset(("__eq__", "__hash__", "__setattr__", "__delattr__"))
_BASES: Final = "__dataclass_fields__"
_OPTIONS: Final[dict[str, dict[str, bool]]] = {
    "__init__": {"init": True},
    "__repr__": {"repr": True},
    "__eq__": {"eq": True},
    "__hash__": {"eq": True, "unsafe_hash": True},
}
"""What `dataclasses` is asked for, to get a method."""
_NOTHING: Final = {"init": False, "repr": False, "eq": False}
_ALL: Final[list[Deferred]] = []


class Deferred:
    """A method of a dataclass, until it is first looked up."""

    __slots__ = ("_is_frozen", "name", "owner")

    def __init__(self, owner: type, name: str, *, is_frozen: bool) -> None:
        self.owner, self.name, self._is_frozen = owner, name, is_frozen
        _ALL.append(self)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        method: Any = self._method()
        setattr(self.owner, self.name, method)
        return method.__get__(instance, owner)

    def _method(self) -> Callable[..., object]:
        made, name = self.owner, self.name
        if name == "__init__":
            method = _constructor(made, is_frozen=self._is_frozen)
        else:  # a class with the same fields has that method alone
            namespace = {"__doc__": made.__name__, "__module__": made.__module__}
            options: dict[str, Any] = {**_NOTHING, **_OPTIONS[name]}
            named = [(each.name, each.type, each) for each in _fields(made)]
            twin = dataclasses.make_dataclass(made.__name__, named, namespace=namespace, **options)
            method = vars(twin)[name]
        method.__qualname__ = f"{made.__qualname__}.{name}"
        return method


def _fields(made: Any) -> tuple[Field[Any], ...]:
    return fields(made)


def complete_constructors() -> None:
    """Make what is left of the constructors: for a process whose forks are to have them."""
    for each in _ALL:
        if each.name == "__init__":
            getattr(each.owner, each.name)
    _ALL.clear()


class _FromFactory:
    """The default of an argument whose field has a factory."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY: Final = _FromFactory()


def _constructor(made: type, *, is_frozen: bool) -> Callable[..., Any]:
    """Compile the `__init__` of a class from its fields."""
    values: dict[str, object] = {"_FACTORY": _FACTORY, "_assign": object.__setattr__}
    positional: list[str] = []
    named: list[str] = []
    body: list[str] = []
    for each in _fields(made):
        argument = value = each.name
        if each.default_factory is not MISSING:
            values[f"_make_{each.name}"] = each.default_factory
            made_now = f"_make_{each.name}()"
            value = f"{made_now} if {each.name} is _FACTORY else {each.name}"
            argument, value = f"{argument}=_FACTORY", value if each.init else made_now
        elif each.default is not MISSING:
            values[f"_default_{each.name}"] = each.default
            argument = f"{argument}=_default_{each.name}"
            value = value if each.init else f"_default_{each.name}"
        elif not each.init:
            continue  # `__post_init__` assigns it
        if each.init:
            (named if each.kw_only else positional).append(argument)
        is_assigned = f"_assign(_self, {each.name!r}, {value})"
        body.append(is_assigned if is_frozen else f"_self.{each.name} = {value}")
    if hasattr(made, "__post_init__"):
        body.append("_self.__post_init__()")
    arguments = ", ".join(["_self", *positional, *(["*", *named] if named else [])])
    lines = "\n  ".join(body or ["pass"])
    source = (
        f"def _made({', '.join(values)}):\n def __init__({arguments}):\n  {lines}\n return __init__"
    )
    scope: dict[str, Any] = {}
    exec(source, vars(sys.modules[made.__module__]), scope)  # noqa: S102 - as Python's does
    method: Callable[..., Any] = scope["_made"](**values)
    method.__annotations__ = {a.name: a.type for a in _fields(made) if a.init} | {"return": None}
    return method


def _dataclass(cls: type | None = None, /, **options: bool) -> Any:
    """Like `dataclasses.dataclass`."""
    if cls is None:
        return lambda given: _dataclass(given, **options)
    own = vars(cls)
    is_plain = options.keys() <= _DEFERRING and own.keys().isdisjoint(_OWN)
    if not is_plain or hasattr(cls, _BASES):
        return dataclasses.dataclass(cls, **options)
    missing = [name for name in _OPTIONS if name not in own]
    if not cls.__doc__:
        cls.__doc__ = cls.__name__  # else Python would print the signature of each class
    is_frozen, has_eq = options.pop("frozen", False), options.pop("eq", True)
    made: Any = dataclasses.dataclass(cls, **_NOTHING, **options)
    for name in missing:
        if name in ("__init__", "__repr__") or (has_eq and (name == "__eq__" or is_frozen)):
            setattr(made, name, Deferred(made, name, is_frozen=is_frozen))
        elif has_eq:
            made.__hash__ = None
    about = made.__dataclass_params__
    about.init = about.repr = True
    about.eq, about.frozen = has_eq, is_frozen
    if is_frozen:
        _freeze(made)
        if options.get("slots") and "__getstate__" not in own:
            made.__getstate__, made.__setstate__ = _get_state, _set_state
    return made


def _freeze(made: Any) -> None:
    names = frozenset(each.name for each in fields(made))

    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    made.__setattr__, made.__delattr__ = __setattr__, __delattr__


def _get_state(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


class _Later:
    """A module or a pattern, until an attribute of it is first read."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._make(), attribute)
        setattr(self, attribute, found)
        return found


def deferred_module(name: str) -> Any:
    """Return the module, to be imported when it is first used. Raise ModuleNotFoundError if it is
    not installed."""
    if find_spec(name) is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return _Later(lambda: import_module(name))


def deferred_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return the pattern, to be compiled when it is first used by one of its methods."""
    later: Any = _Later(lambda: re.compile(pattern, flags))
    return later  # type: ignore[no-any-return]


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass

__all__ = ["Deferred", "complete_constructors", "dataclass", "deferred_module", "deferred_pattern"]
