"""Our declarations against Kafka's schemas, field by field and in both directions."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, cast

import pytest

import moldau.protocol.messages as messages_package
import moldau.protocol.schemas as schemas_package
from moldau.protocol.declare import Declaration, Message
from moldau.protocol.messages import API, OWN, RESERVED, request_class, response_class
from moldau.protocol.schemas import schema_class, schema_names
from moldau.protocol.schemas.coordinator_log import GROUP_LOG, SHARE_LOG, TRANSACTION_LOG
from moldau.protocol.schemas.framed_log import METADATA_LOG, REMOTE_LOG
from moldau.protocol.spec import ArrayOf, FieldSpec, Kind, MessageSpec, StructSpec
from moldau.protocol.types import BYTES, INT64
from moldau.protocol.versions import Versions
from tests import oracle
from tests.oracle import needs_schemas
from tests.protocol.schema_differences import differences, struct_of

WITH_VERSIONS = [name for name, schema in oracle.messages().items() if schema.versions]


def message_class(name: str) -> type[Message]:
    """Our class for a schema, found the way a program finds it."""
    for suffix, find in (("Request", request_class), ("Response", response_class)):
        if name.endswith(suffix):
            return find(name.removesuffix(suffix))
    return schema_class(name)


def our_classes() -> set[type[Message]]:
    requests = {request_class(key) for key in API}
    responses = {response_class(key) for key in API}
    return requests | responses | {schema_class(name) for name in schema_names()}


@needs_schemas
@pytest.mark.parametrize("name", WITH_VERSIONS)
def test_a_declaration_says_what_the_schema_says(name: str) -> None:
    assert differences(oracle.message(name), message_class(name).spec) == []


@needs_schemas
def test_every_schema_has_a_class_and_every_class_a_schema() -> None:
    assert {cls.__name__ for cls in our_classes()} == set(WITH_VERSIONS)


@needs_schemas
def test_the_apis_that_kafka_took_away_are_reserved_and_nothing_else() -> None:
    without = [schema for schema in oracle.messages().values() if not schema.versions]
    assert all(not schema.fields for schema in without)
    requests = {schema.api_key: schema.name for schema in without if schema.kind == "request"}
    assert {key: f"{name}Request" for key, name in RESERVED.items()} == requests


def test_no_module_declares_what_nobody_uses() -> None:
    used: set[object] = set()

    def visit(spec: StructSpec) -> None:
        used.add(spec.cls)
        for field in spec.fields:
            inner = struct_of(field)
            if inner is not None:
                visit(inner)

    own = {of(key) for key in OWN for of in (request_class, response_class)}
    for cls in our_classes() | own:
        visit(cls.spec)
    declared: set[object] = set()
    for package in (messages_package, schemas_package):
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            declared |= {
                value
                for value in vars(module).values()
                if isinstance(value, Declaration) and value.__module__ == found.name
            }
    assert declared == used


@needs_schemas
@pytest.mark.parametrize(
    ("folder", "kind", "types"),
    [
        ("metadata", "metadata", METADATA_LOG.types()),
        ("storage", "metadata", REMOTE_LOG.types()),
        ("group", "coordinator-key", GROUP_LOG.types()),
        ("transaction", "coordinator-key", TRANSACTION_LOG.types()),
        ("share", "coordinator-key", SHARE_LOG.types()),
    ],
)
def test_a_log_knows_each_of_its_record_types(
    folder: str, kind: str, types: tuple[int, ...]
) -> None:
    schemas = [
        one for one in oracle.messages().values() if (one.folder, one.kind) == (folder, kind)
    ]
    assert sorted(types) == sorted(cast("int", schema.api_key) for schema in schemas)


# The comparison itself must be able to fail: each attribute, changed, has to be noticed.


def changed_message(spec: MessageSpec, **changes: object) -> MessageSpec:
    made = MessageSpec(spec.name, spec.schema_name, spec.cls, spec.fields)
    for name in ("kind", "key", "versions", "flexible", "latest_unstable", "listeners"):
        setattr(made, name, getattr(spec, name))
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def changed_struct(spec: StructSpec, field: str, **changes: Any) -> tuple[FieldSpec, ...]:
    assert spec.field(field)._replace(**changes) != spec.field(field)
    return tuple(one._replace(**changes) if one.name == field else one for one in spec.fields)


def changed_partition(**changes: Any) -> MessageSpec:
    """FetchRequest, with a field of its innermost struct changed."""
    message = message_class("FetchRequest").spec
    topic = struct_of(message.field("topics"))
    assert topic is not None
    partition = struct_of(topic.field("partitions"))
    assert partition is not None
    name = changes.pop("of")
    fields = changed_struct(partition, name, **changes)
    inner = StructSpec(partition.name, partition.schema_name, partition.cls, fields)
    fields = changed_struct(topic, "partitions", type=ArrayOf(inner))
    outer = StructSpec(topic.name, topic.schema_name, topic.cls, fields)
    return changed_message(message, fields=changed_struct(message, "topics", type=ArrayOf(outer)))


@needs_schemas
@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("name", {"schema_name": "FetchRequests"}),
        ("kind", {"kind": Kind.RESPONSE}),
        ("key", {"key": 2}),
        ("versions", {"versions": Versions(4, 17)}),
        ("flexible", {"flexible": Versions(11, 18)}),
        ("listeners", {"listeners": ("broker",)}),
        ("unstable", {"latest_unstable": True}),
    ],
)
def test_a_changed_message_is_noticed(what: str, changes: dict[str, object]) -> None:
    spec = changed_message(message_class("FetchRequest").spec, **changes)
    found = differences(oracle.message("FetchRequest"), spec)
    assert any(f": {what} is " in line for line in found)


@needs_schemas
@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("fields", {"of": "fetch_offset", "schema_name": "FetchOffsets"}),
        ("type", {"of": "fetch_offset", "type": ArrayOf(INT64)}),
        ("type", {"of": "replica_directory_id", "type": BYTES}),
        ("versions", {"of": "current_leader_epoch", "since": 10}),
        ("versions", {"of": "current_leader_epoch", "until": 17}),
        ("versions", {"of": "current_leader_epoch", "since": None}),
        ("nullable", {"of": "fetch_offset", "nullable": True}),
        ("tag", {"of": "replica_directory_id", "tag": 2}),
        ("tagged", {"of": "replica_directory_id", "tagged_since": 18}),
        ("ignorable", {"of": "log_start_offset", "ignorable": False}),
        ("map key", {"of": "partition", "map_key": True}),
        ("flexible", {"of": "partition", "flexible": False}),
        ("default", {"of": "current_leader_epoch", "default": 0}),
        ("default", {"of": "partition", "default": False}),
    ],
)
def test_a_changed_field_deep_inside_is_noticed(what: str, changes: dict[str, Any]) -> None:
    found = differences(oracle.message("FetchRequest"), changed_partition(**changes))
    assert any(f": {what} is " in line for line in found)


@needs_schemas
def test_fields_in_another_order_or_missing_are_noticed() -> None:
    schema = oracle.message("ListOffsetsRequest")
    spec = message_class("ListOffsetsRequest").spec
    assert differences(schema, spec) == []
    assert differences(schema, changed_message(spec, fields=spec.fields[::-1]))
    assert differences(schema, changed_message(spec, fields=spec.fields[:-1]))
    assert differences(schema, changed_message(spec, fields=(*spec.fields, spec.fields[0])))


@needs_schemas
def test_a_nullable_range_that_begins_too_early_is_noticed() -> None:
    spec = message_class("MetadataRequest").spec
    fields = changed_struct(spec, "topics", nullable_since=None)
    found = differences(oracle.message("MetadataRequest"), changed_message(spec, fields=fields))
    assert [line for line in found if ".Topics: nullable is " in line]


@needs_schemas
def test_a_required_field_that_has_a_default_in_the_schema_is_noticed() -> None:
    spec = message_class("VoteRequest").spec
    missing = spec.field("topics").default
    fields = changed_struct(spec, "cluster_id", default=missing)
    found = differences(oracle.message("VoteRequest"), changed_message(spec, fields=fields))
    assert found == ["VoteRequest.ClusterId: default is '' in the schema, 'null' here"]


@needs_schemas
def test_a_struct_with_another_default_is_noticed() -> None:
    cls = message_class("FetchRequest")
    replica_state = cls.spec.field("replica_state").make_default()
    replica_state.replica_epoch = 0
    fields = changed_struct(cls.spec, "replica_state", default=replica_state)
    spec = changed_message(cls.spec, fields=fields)
    assert len(differences(oracle.message("FetchRequest"), spec)) == 1
