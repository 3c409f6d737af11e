"""A class of `moldau.deferred.dataclass` beside one of `dataclasses`."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from moldau.deferred import Deferred, complete_constructors, dataclass

T = TypeVar("T")


def of_both(declare: Callable[[Any], Any]) -> tuple[Any, Any]:
    return declare(dataclass), declare(dataclasses.dataclass)


def plain(decorator: Any) -> Any:
    @decorator
    class Shown:
        """It has a text."""

        place: int
        name: str = "none"
        kind: ClassVar[str] = "shown"
        parts: list[int] = field(default_factory=list)
        hidden: int = field(default=3, repr=False, compare=False)
        last: int = field(default=4, kw_only=True)
        own: int = field(default=5, init=False)
        made: list[int] = field(default_factory=lambda: [1], init=False)

    return Shown


def frozen(decorator: Any) -> Any:
    @decorator(frozen=True, slots=True)
    class Shown:
        place: int
        name: str = "none"
        double: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "double", self.place * 2)

    return Shown


def slotted(decorator: Any) -> Any:
    @decorator(slots=True, eq=False)
    class Shown:
        place: int
        other: int = field(default=2, init=False)

    return Shown


def without_fields(decorator: Any) -> Any:
    @decorator(frozen=True)
    class Shown:
        pass

    return Shown


def generic(decorator: Any) -> Any:
    @decorator(frozen=True, slots=True)
    class Shown(Generic[T]):
        place: T

    return Shown


def inheriting(decorator: Any) -> Any:
    @decorator(frozen=True, slots=True)
    class Base:
        place: int

    @decorator(frozen=True, slots=True)
    class Shown(Base):
        name: str = "none"

    return Shown


def with_own_methods(decorator: Any) -> Any:
    @decorator(frozen=True)
    class Shown:
        place: int

        def __repr__(self) -> str:
            return f"<{self.place}>"

        def __hash__(self) -> int:
            return 7

    return Shown


def ordered(decorator: Any) -> Any:
    @decorator(frozen=True, order=True, slots=True)
    class Shown:
        place: int

    return Shown


def attempt(act: Callable[[], object]) -> object:
    """The result of an act, as text, or its error."""
    try:
        return repr(act())
    except Exception as error:
        return type(error).__name__, str(error)


def same_hash(one: object, other: object) -> bool:
    """Compare hashes of two objects that live: a dead one's address may be used again."""
    return hash(one) == hash(other)


ACTS: dict[str, Callable[[Any], object]] = {
    "repr": lambda kind: kind(1),
    "signature": lambda kind: str(inspect.signature(kind)),
    "annotations": lambda kind: kind.__init__.__annotations__,
    "qualified": lambda kind: kind.__init__.__qualname__,
    "names to match": lambda kind: kind.__match_args__,
    "equal": lambda kind: kind(1) == kind(1),
    "unequal": lambda kind: (kind(1) == kind(2), kind(1) == (1,)),
    "hash": lambda kind: same_hash(kind(1), kind(1)),
    "order": lambda kind: kind(1) < kind(2),
    "by name": lambda kind: kind(place=3),
    "too few": lambda kind: kind(),
    "too many": lambda kind: kind(*range(9)),
    "unknown": lambda kind: kind(1, other=2),
    "replaced": lambda kind: dataclasses.replace(kind(1), place=2),
    "as a dict": lambda kind: dataclasses.asdict(kind(1)),
    "copied": lambda kind: copy.deepcopy(kind(1)),
    "assigned": lambda kind: setattr(kind(1), "place", 2),
    "deleted": lambda kind: delattr(kind(1), "place"),
    "fields": lambda kind: [(a.name, a.type, a.init, a.kw_only) for a in dataclasses.fields(kind)],
    "slots": lambda kind: vars(kind).get("__slots__"),
    "frozen": lambda kind: (kind.__dataclass_params__.frozen, kind.__dataclass_params__.eq),
    "factories": lambda kind: kind(1).parts is kind(1).parts,
}


@pytest.mark.parametrize(
    "declare",
    [plain, frozen, slotted, without_fields, generic, inheriting, with_own_methods, ordered],
)
@pytest.mark.parametrize("act", ACTS)
def test_a_class_is_like_one_of_dataclasses(declare: Callable[[Any], Any], act: str) -> None:
    ours, pythons = of_both(declare)

    assert attempt(lambda: ACTS[act](ours)) == attempt(lambda: ACTS[act](pythons))


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


def test_a_frozen_object_is_pickled() -> None:
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)  # noqa: S301 - our own


def test_a_frozen_object_is_not_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Point(1).x = 2  # type: ignore[misc]


def is_deferred(kind: type, name: str) -> bool:
    return isinstance(vars(kind)[name], Deferred)


def test_a_method_is_made_when_it_is_first_used() -> None:
    kind = frozen(dataclass)
    assert is_deferred(kind, "__init__")

    kind(1)

    assert not is_deferred(kind, "__init__")
    assert is_deferred(kind, "__repr__")


def test_constructors_are_completed_before_a_fork() -> None:
    kind = frozen(dataclass)

    complete_constructors()

    assert not is_deferred(kind, "__init__")
    assert kind(2).double == 4
