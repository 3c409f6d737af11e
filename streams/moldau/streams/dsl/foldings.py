"""The aggregations, as expressions for the engine's loop."""

from __future__ import annotations

import copy
import heapq
from collections.abc import Callable
from typing import Any

from moldau.streams.dsl.calls import check_sync
from moldau.streams.dsl.inference import required_parameters, result_type, takes
from moldau.streams.plan.functions import Call, Folding
from moldau.streams.problems import TopologyError

_SELECT = "select"


def count() -> Folding:
    return Folding(
        "count",
        add="{old} + 1",
        initial="0",
        first="1",
        remove="{old} - 1",
        merge="{old} + {other}",
    )


def total(of: Call | None) -> Folding:
    value, functions = _selected(of)
    return Folding(
        "sum",
        add=f"{{old}} + {value}",
        initial="0",
        first=value,
        remove=f"{{old}} - {value}",
        merge="{old} + {other}",
        functions=functions,
        skips_null=True,
    )


def extreme(name: str, of: Call | None) -> Folding:
    value, functions = _selected(of)
    choose = min if name == "min" else max
    return Folding(
        name,
        add=f"{{choose}}({{old}}, {value})",
        first=value,
        merge="{choose}({old}, {other})",
        functions=(*functions, ("choose", choose)),
        skips_null=True,
    )


def mean(of: Call | None) -> Folding:
    value, functions = _selected(of)
    return Folding(
        "mean",
        add=f"({{old}}[0] + {value}, {{old}}[1] + 1)",
        first=f"({value}, 1)",
        remove=f"({{old}}[0] - {value}, {{old}}[1] - 1)",
        merge="({old}[0] + {other}[0], {old}[1] + {other}[1])",
        result="({old}[0] / {old}[1] if {old}[1] else None)",
        functions=functions,
        skips_null=True,
    )


def reduce(function: Callable[..., Any], remove: Callable[..., Any] | None = None) -> Folding:
    check_sync("reduce", function, remove)
    for each in (function, remove):
        if each is not None and not takes(each, 2):
            raise TopologyError(
                f"reduce: {each!r:.80} takes no two arguments; it is called with the result so far "
                "and a value"
            )
    functions = [("fold", function)]
    if remove is not None:
        functions.append(("unfold", remove))
    return Folding(
        "reduce",
        add="{fold}({old}, {value})",
        first="{value}",
        remove=None if remove is None else "{unfold}({old}, {value})",
        merge="{fold}({old}, {other})",
        functions=tuple(functions),
    )


def aggregate(
    initial: Any,
    add: Callable[..., Any],
    remove: Callable[..., Any] | None,
    merge: Callable[..., Any] | None,
) -> Folding:
    check_sync("aggregate", add, remove, merge, initial if callable(initial) else None)
    functions: list[tuple[str, Callable[..., Any]]] = [
        ("initial", _factory(initial)),
        ("fold", add),
    ]
    if remove is not None:
        functions.append(("unfold", remove))
    if merge is not None:
        functions.append(("join", merge))
    keyed = "{key}, " if merge is not None and required_parameters(merge) > 2 else ""
    return Folding(
        "aggregate",
        add=_folded("fold", add),
        initial="{initial}()",
        remove=None if remove is None else _folded("unfold", remove),
        merge=None if merge is None else f"{{join}}({keyed}{{old}}, {{other}})",
        functions=tuple(functions),
    )


def collect(of: Call | None) -> Folding:
    value, functions = _selected(of)
    return Folding(
        "collect",
        add=f"{{old}} + [{value}]",
        initial="[]",
        first=f"[{value}]",
        merge="{old} + {other}",
        functions=functions,
        skips_null=True,
    )


def distinct(of: Call | None) -> Folding:
    """Collect the distinct values, in the order of their first occurrence."""
    value, functions = _selected(of)

    def added(old: list[Any], item: Any) -> list[Any]:
        return old if item in old else [*old, item]

    def joined(old: list[Any], other: list[Any]) -> list[Any]:
        return old + [item for item in other if item not in old]

    return Folding(
        "distinct",
        add=f"{{added}}({{old}}, {value})",
        initial="[]",
        first=f"[{value}]",
        merge="{joined}({old}, {other})",
        functions=(*functions, ("added", added), ("joined", joined)),
        skips_null=True,
    )


def top_k(k: int, by: Callable[[Any], Any] | None) -> Folding:
    """Keep the `k` largest values, the largest first; of equal values the earlier one is kept."""
    if k < 1:
        raise TopologyError(f"top_k: k={k} must be at least 1")
    check_sync("top_k", by)

    def added(old: list[Any], item: Any) -> list[Any]:
        return heapq.nlargest(k, [*old, item], key=by)

    def joined(old: list[Any], other: list[Any]) -> list[Any]:
        return heapq.nlargest(k, [*old, *other], key=by)

    return Folding(
        "top_k",
        add="{added}({old}, {value})",
        initial="[]",
        first="[{value}]",
        merge="{joined}({old}, {other})",
        functions=(("added", added), ("joined", joined)),
        skips_null=True,
    )


def _selected(of: Call | None) -> tuple[str, tuple[tuple[str, Callable[..., Any]], ...]]:
    if of is None:
        return "{value}", ()
    arguments = "{key}, {value}" if of.takes_key else "{value}"
    return f"{{{_SELECT}}}({arguments})", ((_SELECT, of.function),)


def _folded(name: str, function: Callable[..., Any]) -> str:
    """Return the expression of add(aggregate, value), or of add(aggregate, key, value) if the
    function requires three arguments."""
    key = "{key}, " if required_parameters(function) > 2 else ""
    return f"{{{name}}}({{old}}, {key}{{value}})"


def _factory(initial: Any) -> Callable[[], Any]:
    """Return a function that makes a new initial value for each key: call `initial`, or copy it."""
    if callable(initial):
        return initial  # type: ignore[no-any-return]
    if initial is None or isinstance(initial, str | bytes | int | float | bool):
        return lambda: initial
    return lambda: copy.deepcopy(initial)


def aggregate_type(initial: Any, add: Callable[..., Any]) -> Any:
    """Return the declared return type of `add`, else the type of the initial value."""
    declared = result_type(Call(add), Any, Any)
    if declared is not Any:
        return declared
    if isinstance(initial, type):
        return initial
    if callable(initial):
        return result_type(Call(initial), Any, Any)
    return Any if initial is None else type(initial)
