"""What a declaration and Kafka's schema say differently.

What is compared is what can be told apart on the wire or in a program. A schema may say that a
field exists "0+" in a message whose versions begin with 3, or repeat the range of the struct
around; ranges are therefore cut to those of the message and of the structs around before they are
compared, and a field that no version carries is left out. The case of a name's first letter means
nothing: the schemas use both, and Kafka's generator lowers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from moldau.protocol.declare import Struct
from moldau.protocol.spec import ArrayOf, FieldSpec, MessageSpec, StructSpec
from moldau.protocol.types import BYTES_VIEW, Scalar
from moldau.protocol.versions import Versions
from tests import oracle
from tests.oracle import FieldSchema, MessageSchema


def differences(schema: MessageSchema, spec: MessageSpec) -> list[str]:
    """What differs, a line each; nothing where declaration and schema say the same."""
    versions = _cut(schema.versions)
    return [
        *_unequal(schema.name, "name", schema.name, spec.schema_name),
        *_unequal(schema.name, "kind", schema.kind, spec.kind.value),
        *_unequal(schema.name, "key", schema.api_key, spec.key),
        *_unequal(schema.name, "versions", versions, spec.versions),
        *_unequal(schema.name, "flexible", _cut(schema.flexible, versions), spec.flexible),
        *_unequal(schema.name, "listeners", schema.listeners, spec.listeners),
        *_unequal(schema.name, "unstable", schema.latest_version_unstable, spec.latest_unstable),
        *_struct_differences(schema.name, schema, schema.fields, spec, versions),
    ]


def _struct_differences(
    path: str,
    message: MessageSchema,
    fields: Iterable[FieldSchema],
    spec: StructSpec,
    around: Versions,
) -> Iterator[str]:
    theirs = [field for field in fields if _cut(field.versions, around)]
    names = [field.name[0].upper() + field.name[1:] for field in theirs]
    ours = [field for field in spec.fields if not field.is_own]
    yield from _unequal(path, "fields", names, [field.schema_name for field in ours])
    for their, our in zip(theirs, ours, strict=False):
        yield from _field_differences(f"{path}.{their.name}", message, their, our, around)


def _field_differences(
    path: str, message: MessageSchema, schema: FieldSchema, field: FieldSpec, around: Versions
) -> Iterator[str]:
    versions = _cut(schema.versions, around)
    present = _holding(around, field.is_present)
    flexible = schema.flexible is None
    assert flexible or not schema.flexible, "a field is flexible as its message, or never"
    yield from _unequal(path, "type", _type_text(schema), _type_text_of(field))
    yield from _unequal(path, "versions", versions, present)
    nullable, tagged = _cut(schema.nullable, versions), _cut(schema.tagged, versions)
    yield from _unequal(path, "nullable", nullable, _holding(present, field.is_nullable))
    yield from _unequal(path, "tag", schema.tag, field.tag)
    yield from _unequal(path, "tagged", tagged, _holding(present, field.is_tagged))
    yield from _unequal(path, "ignorable", _truth(schema.ignorable), field.ignorable)
    entity = "" if field.entity is None else field.entity.value
    yield from _unequal(path, "entity", schema.entity_type, entity)
    yield from _unequal(path, "map key", _truth(schema.map_key), field.map_key)
    yield from _unequal(path, "flexible", flexible, field.flexible)
    yield from _default_differences(path, message, schema, field, around)
    their_struct = message.structs.get(schema.element_type)
    our_struct = struct_of(field)
    if their_struct is not None and our_struct is not None:
        yield from _struct_differences(path, message, their_struct.fields, our_struct, versions)


def _default_differences(
    path: str, message: MessageSchema, schema: FieldSchema, field: FieldSpec, around: Versions
) -> Iterator[str]:
    """Required is only what every version carries and no schema gives a default to."""
    if field.is_required:
        optional = _cut(schema.versions, around) != around or bool(schema.tagged)
        yield from _unequal(path, "default is left out", False, optional)
        yield from _unequal(path, "default", "", schema.default_text)
    elif not _is_default(message, schema, field.make_default()):
        yield f"{path}: default is {schema.default!r} in the schema, {field.make_default()!r} here"


def _is_default(message: MessageSchema, schema: FieldSchema, value: Any) -> bool:
    """Is this the default of the schema, and of the same type (False is not 0)?"""
    if schema.default == {} and isinstance(value, Struct):
        struct = message.struct_of(schema)
        return all(_is_default(message, inner, _value(value, inner)) for inner in struct.fields)
    return type(value) is type(schema.default) and value == schema.default


def _value(struct: Struct, schema: FieldSchema) -> Any:
    wanted = schema.name.lower()
    fields = type(struct).spec.fields
    (name,) = [field.name for field in fields if field.schema_name.lower() == wanted]
    return getattr(struct, name)


def _unequal(path: str, what: str, theirs: object, ours: object) -> list[str]:
    if theirs == ours:
        return []
    return [f"{path}: {what} is {theirs!r} in the schema, {ours!r} here"]


def _cut(versions: oracle.Versions, around: Versions | None = None) -> Versions:
    """The oracle's range as ours; any empty range becomes the same empty range."""
    lowest, highest = versions.lowest, versions.highest
    if around is not None:
        lowest, highest = max(lowest, around.first), min(highest, around.last)
    return Versions(lowest, highest) if lowest <= highest else Versions(0, -1)


def _holding(around: Versions, holds: Callable[[int], bool]) -> Versions:
    """The range in which the field says that something holds; it has to be one range."""
    found = [version for version in around.all() if holds(version)]
    if not found:
        return Versions(0, -1)
    assert found == list(range(found[0], found[-1] + 1))
    return Versions(found[0], found[-1])


def _truth(value: object) -> bool:
    """One schema writes "false" as a string."""
    return str(value).lower() == "true"


def _type_text(schema: FieldSchema) -> str:
    return f"{schema.type} without copy" if schema.zero_copy else schema.type


def _type_text_of(field: FieldSpec) -> str:
    is_array = isinstance(field.type, ArrayOf)
    element = field.type.element if isinstance(field.type, ArrayOf) else field.type
    if isinstance(element, Scalar):
        name = "bytes without copy" if element is BYTES_VIEW else element.name
    else:
        name = element.schema_name
    return f"[]{name}" if is_array else name


def struct_of(field: FieldSpec) -> StructSpec | None:
    element = field.type.element if isinstance(field.type, ArrayOf) else field.type
    return None if isinstance(element, Scalar) else element
