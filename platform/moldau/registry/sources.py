"""Schemas that a command is given: in a file, or made of a Python class.

order.avsc                a file; its ending says the type: .avsc, .proto, .json
shop.models:Order         a dataclass, pydantic model or msgspec struct
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, UsageError
from moldau.values.schema import AVRO, JSON, PROTOBUF, Reference, Schema

if TYPE_CHECKING:
    from moldau.runtime.files import Files

TYPES: Final = {"avro": AVRO, "json": JSON, "protobuf": PROTOBUF}
_ENDINGS: Final = {".avsc": AVRO, ".avro": AVRO, ".proto": PROTOBUF, ".json": JSON}


def schema_of(
    source: str, schema_type: str | None, references: Sequence[str], context: Context
) -> Schema:
    """Return the schema of a source; `schema_type` is one of TYPES. Raise UsageError."""
    refers = tuple(map(_reference, references))
    module, colon, name = source.rpartition(":")
    if colon and module and all(part.isidentifier() for part in f"{module}.{name}".split(".")):
        return _of_class(source, module, name, schema_type)
    chosen = None if schema_type is None else TYPES[schema_type]
    text = _read(source, context)
    if chosen is None:
        chosen = next((kind for end, kind in _ENDINGS.items() if source.endswith(end)), None)
    if chosen is None:
        raise UsageError(f"say what {source} is: --type {', '.join(TYPES)}")
    return Schema(text, chosen, refers)


def _read(source: str, context: Context) -> str:
    if source == "-":
        return context.source.read().decode("utf-8", "replace")
    from moldau.runtime.real_files import RealFiles

    files: Files = RealFiles()
    if not files.exists(source):
        raise UsageError(
            f"there is no file {source}; a Python class is given as MODULE:CLASS, such as "
            "shop.models:Order"
        )
    return files.read_text(source)


def _of_class(source: str, module: str, name: str, schema_type: str | None) -> Schema:
    found = _class(source, module, name)
    if schema_type in (None, "json"):
        from moldau.client.serdes.json_schema import schema_of_type

        return Schema(json.dumps(schema_of_type(found)), JSON)
    if schema_type == "avro":
        from moldau.values.avro.models import avro_of_type

        return Schema(json.dumps(avro_of_type(found)), AVRO)
    raise UsageError("a Python class becomes --type json or --type avro")


def _class(source: str, module: str, name: str) -> Any:
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = import_module(module)
    except ImportError as error:
        raise UsageError(f"{module} cannot be imported: {error}") from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise UsageError(f"{source} is no class")
    return found


def _reference(word: str) -> Reference:
    """Return the reference of NAME=SUBJECT:VERSION."""
    name, equals, place = word.partition("=")
    subject, _, version = place.rpartition(":")
    if not (name and equals and subject and version.isdecimal()):
        raise UsageError(f"{word!r} is not NAME=SUBJECT:VERSION")
    return Reference(name, subject, int(version))
