"""Made-up values of the sample messages, in each version."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from moldau.protocol.declare import Message
from moldau.protocol.spec import FieldSpec, MessageSpec, StructSpec
from moldau.protocol.types import Scalar
from tests.protocol.sample import Awkward, Forms, Lengths, Lists, Nested, Nothing, Numbers, Rows

MESSAGES: list[type[Message]] = [Numbers, Lengths, Lists, Nested, Forms, Rows, Nothing, Awkward]

_WHOLE = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=140)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a scalar type."""
    if kind.name in _WHOLE:
        bits = _WHOLE[kind.name]
        return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return {
        "bool": st.booleans(),
        "uint16": st.integers(0, 2**16 - 1),
        "uint32": st.integers(0, 2**32 - 1),
        "float64": st.floats(allow_nan=False),
        "uuid": st.binary(min_size=16, max_size=16),
        "string": _TEXT,
    }.get(kind.name, st.binary(max_size=300))


def field_values(field: FieldSpec, version: int) -> st.SearchStrategy[Any]:
    """Values of a field that survive a trip in that version."""
    if not field.is_present(version):
        return st.builds(field.make_default)
    kind = field.type
    if isinstance(kind, Scalar):
        made = values(kind)
    elif isinstance(kind, StructSpec):
        made = structs(kind, version)
    else:
        element = kind.element
        made = st.lists(
            values(element) if isinstance(element, Scalar) else structs(element, version),
            max_size=4,
        )
    return st.none() | made if field.is_nullable(version) else made


def structs(spec: StructSpec, version: int) -> st.SearchStrategy[Any]:
    """Instances that survive a trip in that version."""
    return st.builds(
        spec.cls, **{field.name: field_values(field, version) for field in spec.fields}
    )


@st.composite
def trips(draw: st.DrawFn) -> tuple[Any, int]:
    """A sample message and a version to send it in."""
    spec: MessageSpec = draw(st.sampled_from(MESSAGES)).spec
    version = draw(st.sampled_from(spec.versions.all()))
    return draw(structs(spec, version)), version
