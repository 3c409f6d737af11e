"""Apicurio's registry as a judge: the same requests to it and to ours, on one broker.

What differs on purpose, since Confluent's own registry is the anchor:

* Apicurio's default level is NONE, so levels are set here.
* It has rules of its own for Protobuf (a removed field must be reserved, a package may change) and
  refuses JSON Schemas that only widen a type into a choice. Both are left out here, and compared
  with Confluent's documented rules in `formats/`.
* It takes no JSON Schema without `$schema` or properties.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, Final

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.client.serdes.apicurio import Apicurio
from tests.client.serdes.apicurio import schema_registry as schema_registry
from tests.registry.served import USER, USER_2, USER_BAD, process

pytestmark = [pytest.mark.real, pytest.mark.deep]

ENUM: Final = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "integer"}


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def shape(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


AVRO: Final = [
    "int", "long", "double", "string", "bytes", ["null", "int"], ["null", "string"],
    {"type": "array", "items": "int"}, {"type": "array", "items": "long"},
    {"type": "map", "values": "int"}, ENUM, {**ENUM, "symbols": ["A"]},
    {**ENUM, "symbols": ["A"], "default": "A"}, {"type": "fixed", "name": "F", "size": 4},
    {"type": "fixed", "name": "F", "size": 8}, record(), record(field("a", "int")),
    record(field("a", "int", default=1)), record(field("a", "long")),
    record(field("b", "int", aliases=["a"])), record(field("a", ["null", "int"], default=None)),
    record(name="S"), record(name="S", aliases=["R"]), record(name="x.R"),
    record(field("n", ["null", "R"])),
]  # fmt: skip
JSON: Final = [
    {}, TEXT, NUMBER, {"type": "number"}, {"type": "string", "maxLength": 5},
    {"type": "string", "maxLength": 4}, {"type": "string", "minLength": 1},
    {"type": "string", "pattern": "a"}, {"type": "integer", "minimum": 1},
    {"type": "integer", "maximum": 9}, shape({"a": TEXT}), shape({"a": TEXT, "b": NUMBER}),
    shape({"a": TEXT}, additionalProperties=False),
    shape({"a": TEXT, "b": NUMBER}, additionalProperties=False),
    shape({"a": TEXT}, required=["a"]),
    shape({"a": TEXT, "b": NUMBER}, required=["a", "b"], additionalProperties=False),
    shape({"a": TEXT}, additionalProperties=TEXT), {"type": "array", "items": TEXT},
    {"type": "array", "items": NUMBER}, {"type": "array", "items": TEXT, "maxItems": 3},
    {"type": "array", "items": TEXT, "uniqueItems": True},
]  # fmt: skip


@pytest.fixture(scope="module")
def ours(moldau_broker: SyncEmbeddedBroker) -> Iterator[str]:
    with process(moldau_broker.bootstrap_servers) as (_, url):
        yield url


def ask(url: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, method=method, data=data)  # noqa: S310
    request.add_header("Content-Type", "application/vnd.schemaregistry.v1+json")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


@pytest.mark.parametrize(("kind", "schemas"), [("AVRO", AVRO), ("JSON", JSON)])
def test_both_say_the_same_about_what_may_follow(
    ours: str, schema_registry: Apicurio, kind: str, schemas: list[Any]
) -> None:
    urls = {"ours": ours, "apicurio": schema_registry.url}
    if kind == "JSON":
        draft = "http://json-schema.org/draft-07/schema#"
        schemas = [{"$schema": draft, **each} for each in schemas]
    texts = [json.dumps(each) for each in schemas]
    different = []
    for index, old in enumerate(texts):
        subject = f"judged-{kind}-{index}"
        for url in urls.values():
            body = {"schema": old, "schemaType": kind}
            assert ask(url, "POST", f"/subjects/{subject}/versions", body)[0] == 200
            ask(url, "PUT", f"/config/{subject}", {"compatibility": "BACKWARD"})
        for new in texts:
            path = f"/compatibility/subjects/{subject}/versions/latest"
            body = {"schema": new, "schemaType": kind}
            said = {
                name: ask(url, "POST", path, body)[1]["is_compatible"] for name, url in urls.items()
            }
            if len(set(said.values())) > 1:
                different.append((old, new, said))
    assert different == []


REFERENCE: Final = {"name": "User", "subject": "j-user", "version": 1}
ORDER: Final = '{"type":"record","name":"Order","fields":[{"name":"by","type":"User"}]}'
STEPS: Final[list[tuple[str, str, Any]]] = [
    ("PUT", "/config", {"compatibility": "BACKWARD"}),
    ("GET", "/config", None),
    ("PUT", "/config", {"compatibility": "WRONG"}),
    ("GET", "/subjects/j-user/versions", None),
    ("POST", "/subjects/j-user", {"schema": USER}),
    ("POST", "/subjects/j-user/versions", {"schema": USER}),
    ("POST", "/subjects/j-user/versions", {"schema": USER}),
    ("POST", "/subjects/j-user/versions", {"schema": USER_BAD}),
    ("POST", "/subjects/j-user/versions", {"schema": USER_2}),
    ("POST", "/subjects/j-user/versions", {"schema": "{"}),
    ("GET", "/subjects/j-user/versions", None),
    ("GET", "/subjects/j-user/versions/9", None),
    ("GET", "/subjects/j-user/versions/0", None),
    ("GET", "/schemas/ids/99999", None),
    ("POST", "/subjects/j-user", {"schema": USER}),
    ("POST", "/subjects/j-user", {"schema": '"int"'}),
    ("GET", "/config/j-user", None),
    ("PUT", "/config/j-user", {"compatibility": "FULL"}),
    ("GET", "/config/j-user", None),
    ("DELETE", "/config/j-user", None),
    ("POST", "/subjects/j-order/versions", {"schema": ORDER, "references": [REFERENCE]}),
    ("DELETE", "/subjects/j-user/versions/1", None),
    ("DELETE", "/subjects/j-order?permanent=true", None),
    ("DELETE", "/subjects/j-order", None),
    ("DELETE", "/subjects/j-order?permanent=true", None),
    ("DELETE", "/subjects/j-user/versions/1", None),
    ("GET", "/subjects/j-user/versions", None),
    ("GET", "/subjects/j-user/versions?deleted=true", None),
    ("DELETE", "/subjects/j-user/versions/1?permanent=true", None),
    ("DELETE", "/subjects/j-user/versions/2?permanent=true", None),
    ("DELETE", "/subjects/j-user", None),
    ("DELETE", "/subjects/j-user?permanent=true", None),
    ("DELETE", "/subjects/j-user", None),
]
APICURIOS_OWN: Final = {
    'PUT /config {"compatibility": "WRONG"}': "an internal error there",
    "GET /subjects/j-user/versions/0 null": "a version that is missing, and not an invalid one",
    "GET /config/j-user null": "the default level, as if defaultToGlobal were set",
    "DELETE /subjects/j-order?permanent=true null": "the status is 409; the code is equal",
    "DELETE /subjects/j-user/versions/2?permanent=true null": "as above",
}
"""Answers in which Apicurio differs from Confluent's registry."""


def test_both_answer_a_life_of_two_subjects_alike(ours: str, schema_registry: Apicurio) -> None:
    different, excused = [], set()
    for method, path, body in STEPS:
        here = brief(*ask(ours, method, path, body))
        there = brief(*ask(schema_registry.url, method, path, body))
        step = f"{method} {path} {json.dumps(body)}"
        if here == there:
            continue
        if step in APICURIOS_OWN:
            excused.add(step)
        else:
            different.append((step, here, there))
    assert different == []
    assert excused == set(APICURIOS_OWN)


def brief(status: int, body: Any) -> tuple[int, Any]:
    """What must be equal: status and error code, lists and numbers, levels, subjects."""
    if not isinstance(body, dict):
        return status, body
    level = body.get("compatibilityLevel", body.get("compatibility"))
    return status, (body.get("error_code"), level, body.get("subject"))
