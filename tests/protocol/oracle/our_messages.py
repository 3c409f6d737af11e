"""Between message values and instances of our classes, through `Cls.spec` alone.

Our classes are found by the names of their schemas, in `moldau.protocol.messages` and
`moldau.protocol.schemas`. No schema file is needed here, so golden data can be checked without.
"""

from __future__ import annotations

import base64
import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

import moldau.protocol.messages
import moldau.protocol.schemas
from moldau.protocol.declare import Message
from moldau.protocol.messages import OWN
from moldau.protocol.spec import ArrayOf, FieldSpec, FieldType, StructSpec
from tests.protocol.oracle.kafka_json import field_name, text_to_uuid
from tests.protocol.oracle.second_codec import Value


@functools.cache
def classes() -> Mapping[str, type[Message]]:
    """Every message class by the name of its schema, without those that Kafka does not have."""
    found: dict[str, type[Message]] = {}
    own = {f"{each.name}{kind}" for each in OWN.values() for kind in ("Request", "Response")}
    for cls in _declared_messages():
        name = cls.spec.schema_name
        if name in own:
            continue
        assert name not in found, f"{name} is declared twice"
        found[name] = cls
    return found


def message_class(schema_name: str) -> type[Message]:
    """Our class for that schema; the test fails where there is none."""
    cls = classes().get(schema_name)
    assert cls is not None, f"no class declares {schema_name}"
    return cls


def from_value(cls: type[Message], value: Value) -> Message:
    """An instance with the fields that the value names."""
    made = _struct_from_value(cls.spec, value)
    assert isinstance(made, Message)
    return made


def to_value(message: Message) -> Value:
    """Every field of the instance; views become bytes."""
    return _struct_to_value(type(message).spec, message)


def from_kafka_json(cls: type[Message], json: Mapping[str, Any]) -> Message:
    """An instance of what one of Kafka's converters would read."""
    return from_value(cls, _struct_from_json(cls.spec, json))


def _declared_messages() -> Iterator[type[Message]]:
    for package in (moldau.protocol.messages, moldau.protocol.schemas):
        for module_info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(module_info.name)
            for declared in vars(module).values():
                is_message = isinstance(declared, type) and issubclass(declared, Message)
                if is_message and declared.__module__ == module.__name__:
                    yield declared


def _struct_from_value(spec: StructSpec, value: Value) -> Any:
    by_schema_name = {field.schema_name: field for field in spec.fields}
    unknown = value.keys() - by_schema_name.keys()
    assert not unknown, f"{spec.schema_name} lacks {sorted(unknown)}"
    return spec.cls(
        **{
            by_schema_name[name].name: _from_value(by_schema_name[name].type, item)
            for name, item in value.items()
        }
    )


def _from_value(kind: FieldType, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, ArrayOf):
        return [_from_value(kind.element, element) for element in value]
    return _struct_from_value(kind, value) if isinstance(kind, StructSpec) else value


def _struct_to_value(spec: StructSpec, struct: Any) -> Value:
    return {
        field.schema_name: _to_value(field.type, getattr(struct, field.name))
        for field in spec.fields
        if not field.is_own
    }


def _to_value(kind: FieldType, ours: Any) -> Any:
    if ours is None:
        return None
    if isinstance(kind, ArrayOf):
        return [_to_value(kind.element, element) for element in ours]
    if isinstance(kind, StructSpec):
        assert type(ours) is kind.cls
        return _struct_to_value(kind, ours)
    return bytes(ours) if kind.name in ("bytes_view", "records") else ours


def _struct_from_json(spec: StructSpec, json: Mapping[str, Any]) -> Value:
    by_json_name: dict[str, FieldSpec] = {field_name(f.schema_name): f for f in spec.fields}
    unknown = json.keys() - by_json_name.keys()
    assert not unknown, f"{spec.schema_name} lacks {sorted(unknown)}"
    return {
        by_json_name[name].schema_name: _from_json(by_json_name[name].type, item)
        for name, item in json.items()
    }


def _from_json(kind: FieldType, json: Any) -> Any:
    if json is None:
        return None
    if isinstance(kind, ArrayOf):
        return [_from_json(kind.element, element) for element in json]
    if isinstance(kind, StructSpec):
        return _struct_from_json(kind, json)
    if kind.name == "uuid":
        return text_to_uuid(json)
    return base64.b64decode(json) if kind.name in ("bytes", "bytes_view", "records") else json
