"""Prints a descriptor as the text of a .proto file. No IO.

Equal descriptors have equal texts. Comments are not part of a descriptor. Extensions among options
are printed if the files that define them are there: Connect keeps the scale of decimals so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Final

from moldau.values.failures import DeserializationFailed
from moldau.values.protobuf.files import descriptor_of, pool_of

_TYPES: Final = (
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string",
    "group", "message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
_GROUP, _MESSAGE, _BYTES, _ENUM, _STRING = 10, 11, 12, 14, 9
_REQUIRED, _REPEATED = 2, 3
_NUMBER_MAX: Final = 536_870_911
_OWN_OPTIONS: Final = ("map_entry", "features", "uninterpreted_option")


def printed(file: Any, imports: Iterable[Any] = (), *, is_sorted: bool = False) -> str:
    """Return the text of a file. `imports` are the files that it imports, but for those that every
    registry knows. `is_sorted` orders imports, and fields by their numbers."""
    return "\n".join(_Printer(file, imports, is_sorted).file()) + "\n"


def text_of(text: str) -> str:
    """Return the text of a file that may be given as a descriptor in base64."""
    descriptor = descriptor_of(text)
    return text if descriptor is None else printed(descriptor)


class _Printer:
    def __init__(self, file: Any, imports: Iterable[Any], is_sorted: bool) -> None:
        self._file = file
        self._options = _Options(file, imports).of
        self._sorted = is_sorted
        self._is_proto3 = file.syntax == "proto3"
        self._has_editions = file.syntax == "editions"

    def file(self) -> Iterator[str]:
        file = self._file
        if self._has_editions:
            yield f'edition = "{str(_edition(file)).removeprefix("EDITION_")}";'
        else:
            yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        imports = list(enumerate(file.dependency))
        for index, name in sorted(imports, key=lambda each: each[1]) if self._sorted else imports:
            kind = "public " if index in file.public_dependency else ""
            kind = "weak " if index in file.weak_dependency else kind
            yield f'import {kind}"{name}";'
        for name, value in self._options(file.options):
            yield f"option {name} = {value};"
        for message in file.message_type:
            yield from self._message(message, "")
        for enum in file.enum_type:
            yield from self._enum(enum, "")
        yield from self._extensions(file.extension, "")
        for service in file.service:
            yield from self._service(service)

    def _message(self, message: Any, pad: str) -> Iterator[str]:
        yield f"{pad}message {message.name} {{"
        inner = pad + "  "
        for name, value in self._options(message.options):
            yield f"{inner}option {name} = {value};"
        yield from self._reserved(message, inner)
        entries = {each.name: each for each in message.nested_type if each.options.map_entry}
        yield from self._fields(message, entries, inner)
        for each in message.extension_range:
            yield f"{inner}extensions {_range(each.start, each.end - 1)};"
        groups = {each.type_name.rpartition(".")[2] for each in message.field if _is_group(each)}
        for each in message.nested_type:
            if each.name not in entries and each.name not in groups:
                yield from self._message(each, inner)
        for each in message.enum_type:
            yield from self._enum(each, inner)
        yield from self._extensions(message.extension, inner)
        yield f"{pad}}}"

    def _fields(self, message: Any, entries: dict[str, Any], pad: str) -> Iterator[str]:
        fields = list(message.field)
        if self._sorted:
            fields.sort(key=lambda each: each.number)
        done: set[int] = set()
        for each in fields:
            if not each.HasField("oneof_index") or each.proto3_optional:
                yield from self._field(each, message, entries, pad)
            elif each.oneof_index not in done:
                done.add(each.oneof_index)
                yield f"{pad}oneof {message.oneof_decl[each.oneof_index].name} {{"
                for part in fields:
                    if part.HasField("oneof_index") and part.oneof_index == each.oneof_index:
                        yield from self._field(part, message, entries, pad + "  ", is_choice=True)
                yield f"{pad}}}"

    def _field(
        self,
        field: Any,
        message: Any,
        entries: dict[str, Any],
        pad: str,
        *,
        is_choice: bool = False,
    ) -> Iterator[str]:
        options = self._field_options(field)
        entry = entries.get(field.type_name.rpartition(".")[2]) if field.type == _MESSAGE else None
        if entry is not None and field.label == _REPEATED:
            key, value = (_type(each) for each in entry.field)
            yield f"{pad}map<{key}, {value}> {field.name} = {field.number}{options};"
            return
        label = "" if is_choice else self._label(field)
        if _is_group(field):
            name = field.type_name.rpartition(".")[2]
            body = next(each for each in message.nested_type if each.name == name)
            lines = list(self._message(body, pad))
            yield f"{pad}{label}group {name} = {field.number}{options} {{"
            yield from lines[1:]
            return
        yield f"{pad}{label}{_type(field)} {field.name} = {field.number}{options};"

    def _label(self, field: Any) -> str:
        if field.label == _REPEATED:
            return "repeated "
        if field.label == _REQUIRED:
            return "required "
        if self._is_proto3:
            return "optional " if field.proto3_optional else ""
        return "" if self._has_editions else "optional "

    def _field_options(self, field: Any) -> str:
        made = []
        if field.HasField("default_value"):
            value = field.default_value
            if field.type == _STRING:
                value = _quoted(value)
            elif field.type == _BYTES:
                value = f'"{value}"'
            made.append(f"default = {value}")
        if field.json_name and field.json_name != _json_name(field.name):
            made.append(f"json_name = {_quoted(field.json_name)}")
        made += [f"{name} = {value}" for name, value in self._options(field.options)]
        return f" [{', '.join(made)}]" if made else ""

    def _enum(self, enum: Any, pad: str) -> Iterator[str]:
        yield f"{pad}enum {enum.name} {{"
        for name, value in self._options(enum.options):
            yield f"{pad}  option {name} = {value};"
        yield from self._reserved(enum, pad + "  ", is_enum=True)
        values = list(enum.value)
        if self._sorted:  # the first value is the default one
            values = values[:1] + sorted(values[1:], key=lambda each: each.number)
        for each in values:
            options = [f"{name} = {value}" for name, value in self._options(each.options)]
            shown = f" [{', '.join(options)}]" if options else ""
            yield f"{pad}  {each.name} = {each.number}{shown};"
        yield f"{pad}}}"

    def _reserved(self, part: Any, pad: str, *, is_enum: bool = False) -> Iterator[str]:
        if part.reserved_range:
            last = 0 if is_enum else 1
            ranges = [_range(each.start, each.end - last) for each in part.reserved_range]
            yield f"{pad}reserved {', '.join(ranges)};"
        if part.reserved_name:
            quote = str if self._has_editions else _quoted
            yield f"{pad}reserved {', '.join(map(quote, part.reserved_name))};"

    def _extensions(self, extensions: Iterable[Any], pad: str) -> Iterator[str]:
        for each in extensions:
            yield f"{pad}extend {each.extendee} {{"
            label = self._label(each)
            options = self._field_options(each)
            yield f"{pad}  {label}{_type(each)} {each.name} = {each.number}{options};"
            yield f"{pad}}}"

    def _service(self, service: Any) -> Iterator[str]:
        yield f"service {service.name} {{"
        for name, value in self._options(service.options):
            yield f"  option {name} = {value};"
        for each in service.method:
            taken = "stream " if each.client_streaming else ""
            given = "stream " if each.server_streaming else ""
            types = f"({taken}{each.input_type}) returns ({given}{each.output_type})"
            options = [f"option {name} = {value};" for name, value in self._options(each.options)]
            end = f" {{ {' '.join(options)} }}" if options else ";"
            yield f"  rpc {each.name} {types}{end}"
        yield "}"


def _edition(file: Any) -> Any:
    kind = file.DESCRIPTOR.fields_by_name["edition"].enum_type
    return kind.values_by_number[file.edition].name


def _is_group(field: Any) -> bool:
    return bool(field.type == _GROUP)


def _type(field: Any) -> str:
    return str(field.type_name) if field.type in (_MESSAGE, _ENUM) else _TYPES[field.type]


def _range(start: int, end: int) -> str:
    if start == end:
        return str(start)
    return f"{start} to {'max' if end >= _NUMBER_MAX else end}"


class _Options:
    """Reads the options of a file's parts."""

    def __init__(self, file: Any, imports: Iterable[Any]) -> None:
        self._file = file
        self._imports = imports

    @cached_property
    def _pool(self) -> Any:
        """The pool with the extensions; None if an import is missing."""
        try:
            return pool_of(self._file, {each.name: each for each in self._imports})
        except DeserializationFailed:
            return None

    def of(self, options: Any) -> Iterator[tuple[str, str]]:
        """Yield the options that are set, with their values as text."""
        for field, value in self._with_extensions(options).ListFields():
            if field.name in _OWN_OPTIONS or (field.message_type and not field.is_extension):
                continue
            name = self._extension(field.full_name) if field.is_extension else field.name
            for each in value if field.is_repeated else (value,):
                yield name, _value(field, each)

    def _extension(self, name: str) -> str:
        """Return the name of an extension. One begins with a dot if its first part is also within
        the file's package, where it would be looked for."""
        is_hidden = name.partition(".")[0] in self._file.package.split(".")[1:]
        return f"({'.' * is_hidden}{name})"

    def _with_extensions(self, options: Any) -> Any:
        """Return the options as a message that knows the extensions."""
        from google.protobuf.message_factory import GetMessageClass

        data = options.SerializeToString()
        if not data or self._pool is None:
            return options
        try:
            known = self._pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
        except KeyError:  # no import defines an extension
            return options
        return GetMessageClass(known).FromString(data)


def _value(field: Any, value: Any) -> str:
    from google.protobuf.text_encoding import CEscape
    from google.protobuf.text_format import MessageToString

    if field.message_type is not None:
        return f"{{ {MessageToString(value, as_utf8=True, as_one_line=True)} }}"
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return f'"{CEscape(value, as_utf8=False)}"'
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in others)
