"""Generates the function that reads one message in one version.

    def read(data, p, budget):  ->  (message, its end)

`p` is the position, `n` the last length, count or flag. Adjacent numbers, and the first byte of a
length behind them, are unpacked in one call. Structs are built in line. Nothing is allocated for a
count before the count was compared with the rest of the data and charged to the budget.

The budget is kept as a position, `limit`: each byte that is read costs four bytes of memory (the
cost of the worst text), so that strings need no accounting of their own; arrays decrease the limit
by the cost of their elements, bytes and views increase it by what they do not cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from struct import Struct as Packing
from typing import Any, NamedTuple

from moldau.protocol import wire
from moldau.protocol.codegen.sizes import element_cost, has_text, least_size, struct_cost
from moldau.protocol.codegen.source import Source
from moldau.protocol.failures import Index, Path, Refused
from moldau.protocol.spec import MISSING, ArrayOf, FieldSpec, MessageSpec, StructSpec
from moldau.protocol.types import BYTES_VIEW, RECORDS, STRING, UUID, Scalar

_RESERVED = ("data", "p", "n", "q", "end", "limit", "budget", "message", "new", "read", "text")


class Pending(NamedTuple):
    """A fixed-size value that waits to be unpacked together with its neighbours."""

    target: str
    format: str
    path: Path


class Form(NamedTuple):
    """The encoding of a field in this version."""

    compact: bool
    nullable: bool


def reader_source(spec: MessageSpec, version: int) -> Source:
    """Return the reader of that version as text, with the place of each line."""
    return _Reader(spec, version).write()


class _Reader:
    def __init__(self, spec: MessageSpec, version: int) -> None:
        self.spec = spec
        self.version = version
        self.flexible = spec.is_flexible(version)
        self.source = Source(_RESERVED)
        self.pending: list[Pending] = []

    def write(self) -> Source:
        source = self.source
        with source.block("def read(data, p, budget):"):
            source.emit(f'"""{self.spec.name}, version {self.version}."""')
            source.emit("end = len(data)")
            source.emit(f"limit = p + (budget - {struct_cost(self.spec, self.version)} >> 2)")
            self.build(self.spec, "message", ())
            self.flush()
            source.emit("return message, p")
        return source

    # Structs

    def build(self, spec: StructSpec, variable: str, path: Path) -> None:
        """Create the object and fill its fields; values may still be pending afterwards."""
        cls = self.source.use(spec.name, spec.cls)
        self.source.emit(f"{variable} = {self.source.use('new', wire.NEW)}({cls})", path)
        in_line = [field for field in spec.fields if self.is_in_line(field)]
        self.defaults([field for field in spec.fields if field not in in_line], variable, path)
        for field in in_line:
            self.field(field, f"{variable}.{field.slot}", (*path, field.name))
        if self.flexible:
            tagged = [field for field in spec.fields if field.is_tagged(self.version)]
            self.tags(tagged, variable, path)

    def is_in_line(self, field: FieldSpec) -> bool:
        return field.is_present(self.version) and not field.is_tagged(self.version)

    def defaults(self, fields: list[FieldSpec], variable: str, path: Path) -> None:
        """Set the fields that are not in line; equal plain defaults share one line."""
        groups: dict[tuple[type, Any], list[str]] = {}
        for field in fields:
            target = f"{variable}.{field.slot}"
            if field.is_late:
                groups.setdefault((type(None), None), []).append(target)
            elif field.default is not MISSING:
                groups.setdefault((type(field.default), field.default), []).append(target)
            elif field.default_factory is list or isinstance(field.type, ArrayOf):
                self.source.emit(f"{target} = []", path)
            else:
                name = f"make_{self.source.fresh(field.name)}"
                make = self.source.use(name, field.make_default)
                self.source.emit(f"{target} = {make}()", path)
        for (_, value), targets in groups.items():
            self.source.emit(f"{' = '.join(targets)} = {self.literal(value)}", path)

    def literal(self, value: Any) -> str:
        if value == bytes(16) and isinstance(value, bytes):
            return self.source.use("ZERO_UUID", value)
        return repr(value)

    # Fields

    def field(self, field: FieldSpec, target: str, path: Path) -> None:
        """Read one field in line."""
        form = Form(self.flexible and field.flexible, field.is_nullable(self.version))
        kind = field.type
        if isinstance(kind, ArrayOf):
            self.array(kind.element, target, form, path)
        elif isinstance(kind, Scalar):
            self.scalar(kind, target, form, path)
        elif form.nullable:
            is_null = self.null_flag(path, is_tagged=field.is_tagged(self.version))
            with self.branch(f"if {is_null}:", path):
                self.source.emit(f"{target} = None", path)
            with self.branch("else:", path):
                self.nested(kind, target, path)
        else:
            self.nested(kind, target, path)

    def null_flag(self, path: Path, *, is_tagged: bool) -> str:
        """Read the flag before a struct that may be null; return the condition for null.

        In line the flag is a byte, negative for null; in a tagged field a varint, 0 for null.
        """
        if not is_tagged:
            self.prefix("b", path)
            return "n < 0"
        self.varint(path)
        return "n == 0"

    def nested(self, spec: StructSpec, target: str, path: Path) -> None:
        variable = self.source.fresh(path_name(path))
        self.build(spec, variable, path)
        self.source.emit(f"{target} = {variable}", path)

    def scalar(self, kind: Scalar, target: str, form: Form, path: Path) -> None:
        if kind.format:
            self.pending.append(Pending(target, kind.format, path))
        elif kind is STRING:
            self.string(target, form, path)
        else:
            self.bytes(kind, target, form, path)

    def string(self, target: str, form: Form, path: Path) -> None:
        """Read a string. Short text is in line: its unpacker checks the bound by itself."""
        source = self.source
        text = source.use("text", wire.TEXT)
        self.prefix("B" if form.compact else "h", path)
        if form.compact:
            short, index, step = "0 < n < 128", "n", "p += n - 1"
            long = (
                source.use("long_nullable_string", wire.long_nullable_string)
                if form.nullable
                else source.use("long_string", wire.long_string)
            )
        else:
            short, index, step = "0 <= n < 127", "n + 1", "p += n"
            long = source.use("plain_string", wire.plain_string)
        with source.block(f"if {short}:", path):
            source.emit(f"{target} = {text}[{index}](data, p)[0].decode()", path)
            source.emit(step, path)
        if form.nullable:
            with source.block(f"elif n == {0 if form.compact else -1}:", path):
                source.emit(f"{target} = None", path)
        with source.block("else:", path):
            source.emit(f"{target}, p = {long}(data, p, n)", path)

    def bytes(self, kind: Scalar, target: str, form: Form, path: Path) -> None:
        """Read bytes, which are copied and charged, or views, which are not."""
        source = self.source
        self.length(form, path)
        with self.unless_null(target, form, path):
            bad_length = source.use("bad_length", wire.bad_length)
            source.emit("q = p + n", path)
            with source.block("if not p <= q <= end:", path):
                source.emit(f"raise {bad_length}(n, end - p)", path)
            if kind is RECORDS or kind is BYTES_VIEW:
                source.emit("limit += n", path)
                source.emit(f"{target} = data[p:q]", path)
            else:
                source.emit("limit += 3 * n >> 2", path)
                self.check_budget("q", path)
                source.emit(f"{target} = bytes(data[p:q])", path)
            source.emit("p = q", path)

    def length(self, form: Form, path: Path) -> None:
        """Set `n` to the next length or count; -1 for null."""
        if form.compact:
            self.varint(path)
            self.source.emit("n -= 1", path)
        else:
            self.prefix("i", path)

    def varint(self, path: Path) -> None:
        """Set `n` to the next varint."""
        self.prefix("B", path)
        with self.source.block("if n > 127:", path):
            varint = self.source.use("varint", wire.varint)
            self.source.emit(f"n, p = {varint}(data, p, n)", path)

    def array(self, element: Scalar | StructSpec, target: str, form: Form, path: Path) -> None:
        """Read an array. An empty one, as many are, costs two comparisons. A compact count is one
        more than the number of elements."""
        source = self.source
        if form.compact:
            self.varint(path)
        else:
            self.prefix("i", path)
        empty = int(form.compact)
        least = least_size(element, self.version, compact=form.compact)
        assert least > 0, f"elements of {path} in {self.spec.name} have no size"
        bad_count = source.use("bad_count", wire.bad_count)
        with self.branch(f"if n > {empty}:", path):
            if form.compact:
                source.emit("n -= 1", path)
            size = f"n * {least}" if least > 1 else "n"
            with source.block(f"if {size} > end - p:", path):
                source.emit(f"raise {bad_count}(n, end - p)", path)
            source.emit(f"limit -= n * {(element_cost(element, self.version) >> 2) + 1}", path)
            self.check_budget("p", path)
            if isinstance(element, Scalar) and element.format:
                self.numbers(element, target, path)
            else:
                self.elements(element, target, path)
        with source.block(f"elif n == {empty}:", path):
            source.emit(f"{target} = []", path)
        if form.nullable:
            with source.block(f"elif n == {empty - 1}:", path):
                source.emit(f"{target} = None", path)
        with source.block("else:", path):
            source.emit(f"raise {bad_count}(n - {empty}, end - p)", path)

    def numbers(self, kind: Scalar, target: str, path: Path) -> None:
        if kind is UUID:
            read_uuids = self.source.use("read_uuids", wire.read_uuids)
            self.source.emit(f"{target} = {read_uuids}(data, p, n)", path)
        else:
            arrays = self.source.use(
                f"array_{format_name(kind.format)}", number_arrays(kind.format)
            )
            self.source.emit(f"{target} = list({arrays}[n](data, p))", path)
        self.source.emit(f"p += n * {kind.size}", path)

    def elements(self, element: Scalar | StructSpec, target: str, path: Path) -> None:
        source = self.source
        items = source.fresh(path_name(path))
        item = source.fresh(f"{items}_item")
        item_path = (*path, Index(items))
        source.emit(f"{target} = {items} = []", path)
        with self.branch("for _ in range(n):", path):
            if isinstance(element, StructSpec):
                self.build(element, item, item_path)
            else:
                self.scalar(element, item, Form(self.flexible, nullable=False), item_path)
            self.flush()
            source.emit(f"{items}.append({item})", item_path)
            if has_text(element, self.version):
                self.check_budget("p", item_path)

    # Tags

    def tags(self, fields: list[FieldSpec], variable: str, path: Path) -> None:
        """Read the tag section at the end of a flexible struct."""
        source = self.source
        self.prefix("B", path)
        if not fields:
            with source.block("if n:", path):
                skip_tags = source.use("skip_tags", wire.skip_tags)
                source.emit(f"p = {skip_tags}(data, p, n)", path)
            return
        tag, tag_end = source.fresh("tag"), source.fresh("tag_end")
        with source.block("if n:", path):
            source.emit(f"n, p = {source.use('tag_count', wire.tag_count)}(data, p, n)", path)
            source.emit(f"{tag} = -1", path)
            with source.block("for _ in range(n):", path):
                next_tag = source.use("next_tag", wire.next_tag)
                source.emit(f"{tag}, p, {tag_end} = {next_tag}(data, p, {tag})", path)
                for number, field in enumerate(fields):
                    word = "elif" if number else "if"
                    field_path = (*path, field.name)
                    with self.branch(f"{word} {tag} == {field.tag}:", field_path):
                        self.field(field, f"{variable}.{field.slot}", field_path)
                        self.flush()
                        self.check_tag_end(tag_end, field_path)
                with source.block("else:", path):
                    source.emit(f"p = {tag_end}", path)

    def check_tag_end(self, tag_end: str, path: Path) -> None:
        refused = self.source.use("Refused", Refused)
        with self.source.block(f"if p != {tag_end}:", path):
            self.source.emit(
                f'raise {refused}("tagged field has another size than it says", ends={tag_end})',
                path,
            )

    # Pieces

    def prefix(self, format: str, path: Path) -> None:
        """Set `n` to the number in front of the next value; unpack all pending values with it."""
        self.pending.append(Pending("n", format, path))
        self.flush()

    def flush(self) -> None:
        """Unpack the pending values, in one call."""
        pending, self.pending = self.pending, []
        if not pending:
            return
        first = pending[0]
        if len(pending) == 1 and first.format == "B":
            self.source.emit("n = data[p]", first.path)
            self.source.emit("p += 1", first.path)
            return
        format = "".join(value.format for value in pending)
        unpack, size = unpacker(format)
        distances = tuple(
            (unpacker("".join(later.format for later in pending[: at + 1]))[1], value.path)
            for at, value in enumerate(pending)
        )
        name = self.source.use(f"unpack_{format_name(format)}", unpack)
        targets = ", ".join(value.target for value in pending)
        comma = "," if len(pending) == 1 else ""
        self.source.emit(f"{targets}{comma} = {name}(data, p)", first.path, distances)
        self.source.emit(f"p += {size}", first.path)

    @contextmanager
    def branch(self, head: str, path: Path) -> Iterator[None]:
        """Emit an indented block that leaves no value pending."""
        with self.source.block(head, path):
            yield
            self.flush()

    @contextmanager
    def unless_null(self, target: str, form: Form, path: Path) -> Iterator[None]:
        if not form.nullable:
            yield
            return
        with self.source.block("if n == -1:", path):
            self.source.emit(f"{target} = None", path)
        with self.branch("else:", path):
            yield

    def check_budget(self, position: str, path: Path) -> None:
        over_budget = self.source.use("over_budget", wire.over_budget)
        with self.source.block(f"if {position} > limit:", path):
            self.source.emit(f"raise {over_budget}()", path)


def path_name(path: Path) -> str:
    """Return the last field's name, for a local variable."""
    return next(part for part in reversed(path) if isinstance(part, str))


def format_name(format: str) -> str:
    """Return a struct format as part of an identifier."""
    return format.replace("16s", "u").replace("?", "t")


@cache
def unpacker(format: str) -> tuple[wire.Unpack, int]:
    """Return the unpack method for this run of values, shared by all readers, and its size."""
    packing = Packing(">" + format)
    return packing.unpack_from, packing.size


@cache
def number_arrays(format: str) -> wire.NumberArrays:
    """Return the unpackers of arrays of this number, shared by all readers."""
    return wire.NumberArrays(format)
