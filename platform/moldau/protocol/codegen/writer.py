"""Generates the function that encodes one message in one version.

    def write(message):  ->  bytes, or a list of pieces with views by themselves

Adjacent numbers, the first byte of the length behind them and the empty tag section are packed in
one call; everything is joined once at the end. A value without a field in this version is rejected,
unless its field is ignorable; a tagged field at its default is omitted.
"""

from __future__ import annotations

from functools import cache
from struct import Struct as Packing
from typing import Any, NamedTuple

from moldau.protocol import wire
from moldau.protocol.codegen.reader import Form, format_name, path_name
from moldau.protocol.codegen.source import Source
from moldau.protocol.failures import Index, PackedValue, Path
from moldau.protocol.spec import MISSING, ArrayOf, FieldSpec, MessageSpec, StructSpec
from moldau.protocol.types import BYTES_VIEW, RECORDS, STRING, UUID, Scalar

_RESERVED = ("message", "write", "parts", "pieces", "n", "text", "content", "short")


class Pending(NamedTuple):
    """A fixed-size value that waits to be packed together with its neighbours."""

    value: str
    format: str
    path: Path


def writer_source(spec: MessageSpec, version: int, *, apart: bool) -> Source:
    """Return the writer of that version as text with places; `apart` leaves views by themselves."""
    return _Writer(spec, version, apart=apart).write()


class _Writer:
    def __init__(self, spec: MessageSpec, version: int, *, apart: bool) -> None:
        self.spec = spec
        self.version = version
        self.apart = apart
        self.flexible = spec.is_flexible(version)
        self.source = Source(_RESERVED)
        self.pending: list[Pending] = []
        self.parts = "parts"

    def write(self) -> Source:
        source = self.source
        with source.block("def write(message):"):
            source.emit(f'"""{self.spec.name}, version {self.version}."""')
            source.emit("parts = []")
            if self.apart:
                source.emit("pieces = []")
            self.struct(self.spec, "message", ())
            self.flush()
            if self.apart:
                source.emit('pieces.append(b"".join(parts))')
                source.emit("return pieces")
            else:
                source.emit('return b"".join(parts)')
        return source

    # Structs

    def struct(self, spec: StructSpec, variable: str, path: Path) -> None:
        """Write all fields of a struct; numbers may still be pending afterwards."""
        tagged = []
        for field in spec.fields:
            target, field_path = f"{variable}.{field.name}", (*path, field.name)
            if not field.is_present(self.version):
                self.refuse_lost(field, variable, field_path)
            elif field.is_tagged(self.version):
                tagged.append(field)
            else:
                self.field(field, target, field_path)
        if self.flexible:
            self.tags(sorted(tagged, key=lambda field: field.tag or 0), variable, path)

    def refuse_lost(self, field: FieldSpec, variable: str, path: Path) -> None:
        """Reject a value whose field the version does not have."""
        if field.ignorable:
            return
        with self.source.block(f"if {self.differs(field, variable)}:", path):
            not_in_version = self.source.use("not_in_version", wire.not_in_version)
            self.source.emit(f"raise {not_in_version}({variable}.{field.name})", path)

    def differs(self, field: FieldSpec, variable: str) -> str:
        """Return the condition "is not at its default", without a call where that is possible."""
        value = f"{variable}.{field.slot}"
        kind = field.type
        default = field.make_default()
        if default is None:
            return f"{value} is not None"
        if isinstance(kind, ArrayOf) and default == []:
            # a null is never omitted silently: where it is not allowed, writing it is rejected
            return f"{value} or {value} is None"
        if isinstance(default, bool):
            return f"not {value}" if default else value
        if isinstance(kind, Scalar):
            return f"{value} != {default!r}"
        if isinstance(kind, StructSpec) and all(self.is_plain(inner) for inner in kind.fields):
            inner_values = (
                f"{value}.{inner.name} != {getattr(default, inner.name)!r}" for inner in kind.fields
            )
            either = " or ".join(inner_values)
            if field.is_late:
                return f"{value} is not None and ({either})"
            return f"{value} is None or {either}" if field.nullable else either
        value = f"{variable}.{field.name}"
        name = f"default_{self.source.fresh(field.name)}"
        return f"{value} != {self.source.use(name, default)}"

    @staticmethod
    def is_plain(field: FieldSpec) -> bool:
        return isinstance(field.type, Scalar) and field.default_factory is MISSING

    # Fields

    def field(self, field: FieldSpec, value: str, path: Path) -> None:
        form = Form(self.flexible and field.flexible, field.is_nullable(self.version))
        kind = field.type
        if isinstance(kind, ArrayOf):
            self.array(kind.element, value, form, path)
        elif isinstance(kind, Scalar):
            self.scalar(kind, value, form, path)
        elif form.nullable:
            null = "0" if field.is_tagged(self.version) else "-1"
            self.nullable_struct(kind, value, null, path)
        else:
            self.nested(kind, value, path)

    def nullable_struct(self, spec: StructSpec, value: str, null: str, path: Path) -> None:
        """Write 1 and the struct, or `null`: -1 in line, 0 in a tagged field."""
        self.flush()
        with self.source.block(f"if {value} is None:", path):
            self.pending.append(Pending(null, "b", path))
            self.flush()
        with self.source.block("else:", path):
            self.pending.append(Pending("1", "b", path))
            self.nested(spec, value, path)
            self.flush()

    def nested(self, spec: StructSpec, value: str, path: Path) -> None:
        variable = self.source.fresh(path_name(path))
        self.source.emit(f"{variable} = {value}", path)
        self.struct(spec, variable, path)

    def scalar(self, kind: Scalar, value: str, form: Form, path: Path) -> None:
        if kind is STRING:
            self.string(value, form, path)
        elif not kind.format:
            self.bytes(kind, value, form, path)
        else:
            if kind is UUID:
                with self.source.block(f"if len({value}) != 16:", path):
                    bad_uuid = self.source.use("bad_uuid", wire.bad_uuid)
                    self.source.emit(f"raise {bad_uuid}({value})", path)
            self.pending.append(Pending(value, kind.format, path))

    def string(self, value: str, form: Form, path: Path) -> None:
        source = self.source
        size = "len(text) + 1" if form.compact else "len(text)"
        if form.nullable:
            source.emit(f"text = {value}", path)
            with source.block("if text is None:", path):
                source.emit(f'n, text = {0 if form.compact else -1}, b""', path)
            with source.block("else:", path):
                source.emit("text = text.encode()", path)
                source.emit(f"n = {size}", path)
        else:
            source.emit(f"text = {value}.encode()", path)
            source.emit(f"n = {size}", path)
        if form.compact:
            self.varint(source.use("long_text_length", wire.long_text_length), path)
        else:
            self.pending.append(Pending("n", "h", path))
            self.flush()
        source.emit(f"{self.parts}.append(text)", path)

    def bytes(self, kind: Scalar, value: str, form: Form, path: Path) -> None:
        source = self.source
        self.sized("content", value, 'b""', form, path)
        if self.apart and self.parts == "parts" and (kind is RECORDS or kind is BYTES_VIEW):
            is_apart = f"n > {wire.JOINED_BYTES_MAX} or type(content) is not bytes"
            with source.block(f"if n > {int(form.compact)} and ({is_apart}):", path):
                source.emit('pieces.append(b"".join(parts))', path)
                source.emit("pieces.append(content)", path)
                source.emit("parts.clear()", path)
            with source.block(f"elif n > {int(form.compact)}:", path):
                source.emit(f"{self.parts}.append(content)", path)
        else:
            source.emit(f"{self.parts}.append(content)", path)

    def sized(self, variable: str, value: str, empty: str, form: Form, path: Path) -> None:
        """Assign the value to `variable`, empty for null, and write its length or count."""
        source = self.source
        source.emit(f"{variable} = {value}", path)
        size = f"n = len({variable})" + (" + 1" if form.compact else "")
        if form.nullable:
            with source.block(f"if {variable} is None:", path):
                source.emit(f"n, {variable} = {0 if form.compact else -1}, {empty}", path)
            with source.block("else:", path):
                source.emit(size, path)
        else:
            source.emit(size, path)
        if form.compact:
            self.varint(source.use("varint_bytes", wire.varint_bytes), path)
        else:
            self.pending.append(Pending("n", "i", path))
            self.flush()

    def array(self, element: Scalar | StructSpec, value: str, form: Form, path: Path) -> None:
        source = self.source
        items = source.fresh(path_name(path))
        self.sized(items, value, "()", form, path)
        if isinstance(element, Scalar) and element.format:
            if element is UUID:
                packed = f"{source.use('write_uuids', wire.write_uuids)}({items})"
            else:
                arrays = source.use(
                    f"array_{format_name(element.format)}", array_packers(element.format)
                )
                packed = f"{arrays}[len({items})](*{items})"
            source.emit(f"{self.parts}.append({packed})", path)
            return
        item = source.fresh(f"{items}_item")
        item_path = (*path, Index(items, item))
        with source.block(f"for {item} in {items}:", path):
            if isinstance(element, StructSpec):
                self.struct(element, item, item_path)
            else:
                self.scalar(element, item, Form(self.flexible, nullable=False), item_path)
            self.flush()

    # Tags

    def tags(self, fields: list[FieldSpec], variable: str, path: Path) -> None:
        """Write the tag section at the end of a flexible struct."""
        if not fields:
            self.pending.append(Pending("", "x", path))
            return
        source = self.source
        pending, parts = self.pending, self.parts
        conditions = [self.differs(field, variable) for field in fields]
        source.emit("if (", path)
        for number, (field, condition) in enumerate(zip(fields, conditions, strict=True)):
            source.emit(f"    {'or ' if number else ''}{condition}", (*path, field.name))
        with source.block("):", path):
            tagged = source.fresh("tagged")
            source.emit(f"{tagged} = []", path)
            for field, condition in zip(fields, conditions, strict=True):
                with source.block(f"if {condition}:", (*path, field.name)):
                    self.tag(field, f"{variable}.{field.name}", tagged, (*path, field.name))
            self.pending, self.parts = [*pending, Pending(f"len({tagged})", "B", path)], parts
            self.flush()
            source.emit(f"{self.parts} += {tagged}", path)
        with source.block("else:", path):
            self.pending = [*pending, Pending("", "x", path)]
            self.flush()

    def tag(self, field: FieldSpec, value: str, tagged: str, path: Path) -> None:
        """Append the tagged field to the list `tagged`."""
        source = self.source
        self.pending, self.parts = [], source.fresh(f"{field.name}_parts")
        source.emit(f"{self.parts} = []", path)
        self.field(field, value, path)
        self.flush()
        write_tag = source.use("write_tag", wire.write_tag)
        source.emit(f"{tagged}.append({write_tag}({field.tag}, {self.parts}))", path)

    # Pieces

    def varint(self, long: str, path: Path) -> None:
        """Write the pending values and then `n`, which is seldom longer than a byte."""
        pending, self.pending = self.pending, []
        if not pending:
            short = self.source.use("short", wire.SHORT)
            self.source.emit(f"{self.parts}.append({short}[n] if n < 128 else {long}(n))", path)
            return
        with_byte = self.packed([*pending, Pending("n", "B", path)])
        alone = self.packed(pending)
        self.source.emit(
            f"{self.parts}.append({with_byte} if n < 128 else {alone} + {long}(n))",
            path,
            values=values_of(pending),
        )

    def flush(self) -> None:
        """Pack the pending values, in one call."""
        pending, self.pending = self.pending, []
        if pending:
            self.source.emit(
                f"{self.parts}.append({self.packed(pending)})",
                pending[-1].path,
                values=values_of(pending),
            )

    def packed(self, pending: list[Pending]) -> str:
        format = "".join(value.format for value in pending)
        if not format.strip("x"):
            return repr(bytes(len(format)))
        pack = self.source.use(f"pack_{format_name(format)}", packer(format))
        return f"{pack}({', '.join(value.value for value in pending if value.value)})"


def values_of(pending: list[Pending]) -> tuple[PackedValue, ...]:
    """Return the packed values that are attributes, so that an error can name its field."""
    return tuple(PackedValue(*value) for value in pending if "." in value.value)


@cache
def packer(format: str) -> Any:
    """Return the pack method for this run of values, shared by all writers."""
    return Packing(">" + format).pack


@cache
def array_packers(format: str) -> wire.ArrayPackers:
    """Return the packers of arrays of this number, shared by all writers."""
    return wire.ArrayPackers(format)
