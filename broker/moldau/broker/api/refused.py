"""The response to a request, or to items of it, of which nothing is done.

It is made of the declarations of both messages, so an API needs no code for it. A row of the
response repeats what names its item in the request: the fields of the same name (but no numbers),
those that name the same kind of thing (`Entity`), and the number of the partition. Its error is the
one that is given, its lists hold the rows of the item's own items, and what is left has its
default; an offset that must be given is -1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Request, Response, Struct
from moldau.protocol.messages import response_class
from moldau.protocol.spec import ArrayOf, FieldSpec, FieldType, StructSpec
from moldau.protocol.types import INT16, INT32, INT64, Entity, Scalar

Refuse: TypeAlias = "Callable[[Any, int, KafkaError], Response]"
"""Returns the response to a message, in a version, of which nothing is done."""

ENTITIES: Final = frozenset((Entity.TOPIC_NAME, Entity.GROUP_ID, Entity.TRANSACTIONAL_ID))
_PARTITION: Final = ("partition_index", "index", "partition", "partition_id")
_NUMBERS: Final = (INT16, INT32, INT64)
_KEY: Final = "key"


def error_response(key: int, version: int, error: KafkaError) -> Response | None:
    """Return the response with this error in `error_code`; None if the API has no such field."""
    cls = response_class(key)
    fields = {field.name: field for field in cls.spec.fields if field.is_present(version)}
    if "error_code" not in fields:
        return None
    values = {name: field.make_default() for name, field in fields.items() if field.is_required}
    values["error_code"] = error.code
    if "error_message" in fields:
        values["error_message"] = error.reason
    return cls(**values)


def refused_response(message: Request, version: int, error: KafkaError, **others: Any) -> Response:
    """Return the response with the rows of the request and this error in each. `others` are values
    of its rows that are not the item's. Items with a key have one row each."""
    key = type(message).spec.key
    assert key is not None
    cls = response_class(key)
    response: Response = _made(cls.spec, message, (error.code, error.reason), others, version)
    return response


def with_others(**others: Any) -> Refuse:
    """Return `refused_response` with these values."""
    return lambda message, version, error: refused_response(message, version, error, **others)


def refused_rows(
    row: type[Struct], items: Iterable[Any], code: ErrorCode, reason: str | None = None,
    **others: Any,
) -> list[Any]:  # fmt: skip
    """Return a row of the response for each item of a request."""
    return [_made(row.spec, each, (code, reason), others) for each in items]


def _made(
    spec: StructSpec,
    item: Any,
    error: tuple[ErrorCode, str | None],
    others: dict[str, Any],
    version: int | None = None,
) -> Any:
    values: dict[str, Any] = {}
    for field in spec.fields:
        name = field.name
        if version is not None and not field.is_present(version):
            continue
        if name in others:
            values[name] = others[name]
        elif name == "error_code":
            values[name] = error[0]
        elif name == "error_message":
            if error[1] is not None or field.is_required:
                values[name] = error[1]
        elif (row := _row_of(field.type)) is not None:
            items = _items_of(item)
            rows = [_made(row, each, error, others) for each in items]
            is_once = version is not None and (_has_key(row) or _has_key(*items[:1]))
            values[name] = unique(rows) if is_once else rows
        else:
            values[name] = _value(field, item)
    return spec.cls(**values)


def _row_of(kind: FieldType) -> StructSpec | None:
    """Return the form of the rows if the field has rows with errors, or with such rows."""
    element = kind.element if isinstance(kind, ArrayOf) else None
    if not isinstance(element, StructSpec):
        return None
    has_errors = any(
        field.name == "error_code" or _row_of(field.type) is not None for field in element.fields
    )
    return element if has_errors else None


def _has_key(of: Any = None) -> bool:
    spec = type(of).spec if isinstance(of, Struct) else of
    return isinstance(spec, StructSpec) and any(each.map_key for each in spec.fields)


def _items_of(item: Any) -> list[Any]:
    """Return the items that a request or an item of it names: its first list that is not empty."""
    if isinstance(item, Struct):
        for field in type(item).spec.fields:
            if isinstance(field.type, ArrayOf) and (found := getattr(item, field.name)):
                return list(found)
    return []


def element_of(cls: type[Struct], name: str) -> type[Any]:
    """Return the class of the elements of a field."""
    kind = cls.spec.field(name).type
    assert isinstance(kind, ArrayOf)
    assert isinstance(kind.element, StructSpec)
    return kind.element.cls


def unique(rows: list[Any]) -> list[Any]:
    """Return the rows without repetitions, in order. Rows have no hash."""
    return list({repr(each): each for each in rows}.values())


def _value(field: FieldSpec, item: Any) -> Any:
    """Return what a field of a row repeats of its item; else the default."""
    if isinstance(item, Struct):
        fields = {each.name: each for each in type(item).spec.fields}
        same = fields.get(field.name)
        is_number = field.type in _NUMBERS and field.entity is None
        if same is not None and same.type == field.type and not is_number:
            return getattr(item, field.name)
        for each in fields.values():
            is_same = field.entity in ENTITIES and each.entity is field.entity
            is_index = field.name in _PARTITION and each.name in _PARTITION
            if (is_same or is_index) and isinstance(each.type, Scalar):
                return getattr(item, each.name)
    elif isinstance(item, str):
        if field.entity in ENTITIES or field.name == _KEY:
            return item
    elif field.name in _PARTITION:
        return item
    if field.is_required and field.type is INT64:
        return -1
    return field.make_default()
