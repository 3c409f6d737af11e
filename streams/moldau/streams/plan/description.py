"""A plan as plain data, for programs that draw or check an app without importing it.

The digest of an operation is of compiled code, so comments, and where a function stands, do not
count. Another version of Python has other digests.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, Literal

import msgspec

from moldau.streams.expressions.typed import Typed
from moldau.streams.plan import operations as op
from moldau.streams.plan.compile import stores_of, topics_of
from moldau.streams.plan.functions import Call, Folding, closed_over, functions_in, is_own
from moldau.streams.plan.layout import assumed_layout
from moldau.streams.plan.operations import Operation, Step
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.text import describe
from moldau.streams.plan.topics import topology_topic
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.codec import Codec
from moldau.streams.state.spec import StoreSpec

_INSTALLED: Final = frozenset(("site-packages", "dist-packages"))
_PLAIN: Final = (str, bytes, int, float, bool, type(None))


def description(plan: Plan, partitions: Mapping[str, int]) -> dict[str, Any]:
    """Return what the app reads, writes and makes, and its steps.

    `partitions` has the known partition counts of topics; an input without one is taken to have a
    count that fits. `problem` says why the app cannot run on them, and is None if it can.
    """
    own = {topic.name for topic in plan.repartitions}
    steps = [step for program in plan.programs for step in program.steps]
    return {
        "app": plan.app,
        "reads": list(plan.source_topics()),
        "writes": sorted({name for each in plan.programs for name in each.outputs} - own),
        "chooses_topics": any(
            isinstance(step.operation, op.Reply)
            or (isinstance(step.operation, op.Sink) and not step.operation.topic)
            for step in steps
        ),
        "types": _types(plan, own),
        "makes": list(made_topics(plan)),
        "programs": [_program(each) for each in plan.programs],
        "problem": _problem(plan, partitions),
    }


def made_topics(plan: Plan) -> tuple[str, ...]:
    """Return the topics that the app makes for itself."""
    own = sorted(topic.name for topic in plan.repartitions)
    return *own, *plan.changelogs(), topology_topic(plan.app)


def _types(plan: Plan, own: set[str]) -> dict[str, dict[str, Any]]:
    """Return the types of the values in the topics that the app reads and writes, where it declares
    them. A topic with values of several types has none."""
    found: dict[str, dict[str, list[Any]]] = {"reads": {}, "writes": {}}
    for step in (step for program in plan.programs for step in program.steps):
        operation = step.operation
        if isinstance(operation, op.Source):
            for topic in operation.topics:
                found["reads"].setdefault(topic, []).append(value_type(operation.value, "read"))
        elif isinstance(operation, op.Sink) and operation.topic:
            types = found["writes"].setdefault(operation.topic, [])
            types.append(value_type(operation.value, "written"))
    return {
        side: {
            topic: types[0]
            for topic, types in topics.items()
            if topic not in own and types[0] is not None and types.count(types[0]) == len(types)
        }
        for side, topics in found.items()
    }


def _program(program: Program) -> dict[str, Any]:
    return {
        "index": program.index,
        "reads": list(program.inputs),
        "writes": list(program.outputs),
        "stores": [store.name for store in program.stores],
        "steps": [
            {
                "name": step.name,
                "kind": step.operation.kind,
                "parents": list(step.parents),
                "lookups": list(step.lookups),
                "text": describe(step),
                "code": code_of(step.operation),
                "reads": list(topics_of(step)),
                "writes": _written(step),
                "stores": [store.name for store in stores_of(step)],
            }
            for step in program.steps
        ],
    }


def _written(step: Step) -> list[str]:
    operation = step.operation
    return [operation.topic] if isinstance(operation, op.Sink) and operation.topic else []


def _problem(plan: Plan, partitions: Mapping[str, int]) -> str | None:
    try:
        assumed_layout(plan, partitions)
    except TopologyError as error:
        return str(error)
    return None


def code_of(operation: Operation) -> str:
    """Return a digest of the app's functions in an operation, of those that they call by name, and
    of its expressions. It is empty if there are none."""
    seen: set[int] = set()
    texts = [*_expressions(operation)]
    made = getattr(operation, "make", None)
    left = [*functions_in(operation), *([made] if isinstance(made, type) else [])]
    while left:
        each = left.pop(0)
        if id(each) in seen or is_own(each):
            continue
        seen.add(id(each))
        for function in _functions_of(each):
            texts += _body(function.__code__, function.__doc__)
            values = [*(function.__defaults__ or ()), *closed_over(function), *_globals(function)]
            texts += [repr(value) for value in values if isinstance(value, _PLAIN)]
            left += [value for value in values if _is_of_app(value)]
    return sha256("\0".join(texts).encode()).hexdigest()[:8] if texts else ""


def _expressions(value: Any) -> Iterator[str]:
    if isinstance(value, Typed):
        yield str(value)
    elif isinstance(value, Call):
        yield from _expressions(value.expression)
    elif isinstance(value, Folding):
        sources = (value.first, value.add, value.remove, value.merge, value.result)
        yield from (each for each in sources if each is not None)
    elif isinstance(value, tuple):
        for each in value:
            yield from _expressions(each)
    elif is_dataclass(value) and not isinstance(value, Codec | StoreSpec | type):
        for row in fields(value):
            yield from _expressions(getattr(value, row.name))


def _functions_of(value: Any) -> list[FunctionType]:
    """Return a function itself, that of a method, or those of a class or of an object's class."""
    value = getattr(value, "__func__", value)
    if isinstance(value, FunctionType):
        return [value]
    kind = value if isinstance(value, type) else type(value)
    return [each for each in vars(kind).values() if isinstance(each, FunctionType)]


def _body(code: CodeType, doc: str | None) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames))
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _body(each, None)
        elif isinstance(each, frozenset):
            yield repr(sorted(map(repr, each)))
        elif doc is None or each != doc:
            yield repr(each)


def _globals(function: FunctionType) -> Iterator[Any]:
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield function.__globals__[name]


def _is_of_app(value: Any) -> bool:
    """Whether it is a function or class outside installed packages."""
    if not isinstance(value, FunctionType | MethodType | type):
        return False
    module = value.__module__ or ""
    path = getattr(sys.modules.get(module), "__file__", None) or ""
    is_installed = not _INSTALLED.isdisjoint(path.split("/"))
    return not is_installed and module.partition(".")[0] not in sys.stdlib_module_names


def value_type(codec: Codec, side: Literal["read", "written"]) -> dict[str, Any] | None:
    """Return the format of a codec, `text`, `bytes` or `json`, and the schema of JSON.

    Return None for values without a declared type. `is_lax`: numbers may be read from texts."""
    kind = codec.kind
    if kind is None:
        return None
    if kind is str or kind is bytes:
        return {"format": "text" if kind is str else "bytes"}
    if hasattr(kind, "model_json_schema"):
        is_read = side == "read"
        mode = "validation" if is_read else "serialization"
        schema = kind.model_json_schema(mode=mode, by_alias=is_read)
        return {"format": "json", "schema": schema, "is_lax": is_read}
    try:
        return {"format": "json", "schema": msgspec.json.schema(kind)}
    except (TypeError, RuntimeError):  # a type of the user's own, which JSON Schema cannot describe
        return {"format": "json"}
