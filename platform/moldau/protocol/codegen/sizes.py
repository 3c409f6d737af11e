"""The smallest encoded size of values, and the memory of their objects, by version."""

from __future__ import annotations

from moldau.protocol.limits import (
    BYTES_COST,
    LIST_COST,
    NUMBER_COST,
    SLOT_COST,
    STRING_COST,
    STRUCT_COST,
    UUID_COST,
    VIEW_COST,
)
from moldau.protocol.spec import ArrayOf, FieldSpec, FieldType, StructSpec
from moldau.protocol.types import BYTES, RECORDS, STRING, UUID, Scalar


def least_size(kind: FieldType, version: int, *, compact: bool, nullable: bool = False) -> int:
    """Return the fewest bytes that a value of this type has on the wire."""
    if isinstance(kind, StructSpec):
        return 1 if nullable else least_struct_size(kind, version, compact=compact)
    if compact and (isinstance(kind, ArrayOf) or not kind.format):
        return 1
    if isinstance(kind, ArrayOf):
        return 4
    if kind is STRING:
        return 2
    return kind.size or 4


def least_struct_size(spec: StructSpec, version: int, *, compact: bool) -> int:
    """Return the fewest bytes of a struct: its untagged fields, and the count of tags."""
    return int(compact) + sum(
        least_size(
            field.type,
            version,
            compact=compact and field.flexible,
            nullable=field.is_nullable(version),
        )
        for field in spec.fields
        if field.is_present(version) and not field.is_tagged(version)
    )


def element_cost(kind: Scalar | StructSpec, version: int) -> int:
    """Return the memory of one element of an array, without content of variable length."""
    if isinstance(kind, StructSpec):
        return SLOT_COST + struct_cost(kind, version)
    # Numbers are unpacked to a tuple, from which the list is made.
    slots = 2 if kind.format and kind is not UUID else 1
    return slots * SLOT_COST + scalar_cost(kind)


def struct_cost(spec: StructSpec, version: int) -> int:
    """Return the memory of a struct with short strings and empty arrays."""
    return STRUCT_COST + sum(SLOT_COST + _field_cost(field, version) for field in spec.fields)


def scalar_cost(kind: Scalar) -> int:
    """Return the memory of one scalar without its bytes."""
    if kind is STRING:
        return STRING_COST
    if kind is UUID:
        return UUID_COST
    if kind is RECORDS or kind.name == "bytes_view":
        return VIEW_COST
    if kind is BYTES:
        return BYTES_COST
    return NUMBER_COST if kind.size > 1 else 0


def _field_cost(field: FieldSpec, version: int) -> int:
    if isinstance(field.type, ArrayOf):
        return LIST_COST
    if isinstance(field.type, StructSpec):
        return struct_cost(field.type, version)
    return scalar_cost(field.type) if field.is_present(version) else 0


def has_text(kind: FieldType, version: int) -> bool:
    """Whether the type has strings outside of arrays, which check the budget themselves."""
    if isinstance(kind, ArrayOf):
        return False
    if isinstance(kind, Scalar):
        return kind is STRING
    return any(field.is_present(version) and has_text(field.type, version) for field in kind.fields)
