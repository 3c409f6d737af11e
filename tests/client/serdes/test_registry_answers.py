"""What a registry may answer beside its API: redirects, and JSON of another kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau.client.serdes.registry import Config, RegistryError, Schema, SchemaRegistry
from moldau.client.serdes.registry.http import HttpRequest, parse_url, redirected
from moldau.runtime.http_client import HttpAnswer
from tests.client.serdes.registry_world import TEXT, RegistryWorld
from tests.client.serdes.scripted_registry import PORT

Call = Callable[[SchemaRegistry], Coroutine[Any, Any, Any]]
SCHEMA = {"schema": TEXT.text}


async def fails(call: Coroutine[Any, Any, Any]) -> RegistryError:
    with pytest.raises(RegistryError) as caught:
        await call
    return caught.value


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("location", ["/schemas/ids/1", f"http://r1:{PORT}/schemas/ids/1", "1"])
def test_a_read_is_asked_again_where_the_same_host_sends_on_to(status: int, location: str) -> None:
    with RegistryWorld() as world:
        world.first.put("t-value", SCHEMA)
        world.first.instead["/schemas/ids/9"] = (status, b"", location)
        url = f"http://me:secret@r1:{PORT}"
        assert world.run_client(lambda registry: registry.schema(9), url) == TEXT
        assert len({each.headers["authorization"] for each in world.first.asked}) == 1


def test_another_path_of_a_registry_leads_to_it_with_the_query() -> None:
    with RegistryWorld() as world:
        world.first.instead["/old/subjects"] = (308, b"", "/subjects?subjectPrefix=%C3%A9 t&x=1")
        url = f"http://r1:{PORT}/old"
        assert world.run_client(lambda registry: registry.subjects(), url) == []
        assert world.first.asked[-1].query == {"subjectPrefix": "\u00e9 t", "x": "1"}


@pytest.mark.parametrize(
    "location", [f"http://r2:{PORT}/subjects", "https://r1/subjects", "//r2/subjects", "http://["]
)
def test_nothing_is_sent_to_another_host_and_the_error_says_where_to_go(location: str) -> None:
    with RegistryWorld() as world:
        world.first.instead["/subjects"] = (302, b"<html>", location)
        url = f"http://me:secret@r1:{PORT}"
        error = world.run_client(lambda registry: fails(registry.subjects()), url)
        assert not world.second.asked
        assert len(world.first.asked) == 1
    assert location in error.reason
    assert "schema.registry.url" in error.reason
    assert error.context["location"] == location
    assert (error.status, error.retriable, error.is_of_record) == (302, False, False)


def test_what_changes_something_is_not_sent_elsewhere() -> None:
    with RegistryWorld() as world:
        world.first.instead["/subjects/t/versions"] = (307, b"", "/there")
        error = world.run_client(lambda registry: fails(registry.register("t", TEXT)))
        assert len(world.first.asked) == 1
    assert "/there" in error.reason


def test_redirects_in_a_circle_end() -> None:
    with RegistryWorld() as world:
        world.first.instead["/subjects"] = (301, b"", "/subjects")
        error = world.run_client(lambda registry: fails(registry.subjects()))
        assert len(world.first.asked) == 6
    assert error.status == 301


def test_a_redirect_to_nowhere_is_told() -> None:
    with RegistryWorld() as world:
        world.first.instead["/subjects"] = (301, b"", "")
        error = world.run_client(lambda registry: fails(registry.subjects()))
    assert "nowhere" in error.reason


def test_another_port_of_the_host_is_followed_and_no_other_scheme() -> None:
    def leads(url: str, location: str) -> str | None:
        answer = HttpAnswer(301, {"location": location}, b"")
        found = redirected(parse_url(url), HttpRequest("GET", "/subjects"), answer)
        return None if found is None else f"{found[0]}{found[1].target}"

    assert leads("http://r:8081/a", "http://R:9/b?c=1") == "http://r:9/b?c=1"
    assert leads("http://[::1]:8081", "http://[::1]/b") == "http://[::1]:80/b"
    assert leads("https://r", "http://r/b") is None
    assert leads("http://r", "http://r:99999/b") is None


# JSON of another kind

READS: dict[str, tuple[str, Call]] = {
    "schema": ("GET /schemas/ids/1", lambda r: r.schema(1)),
    "schema_subjects": ("GET /schemas/ids/1/subjects", lambda r: r.schema_subjects(1)),
    "schema_versions": ("GET /schemas/ids/1/versions", lambda r: r.schema_versions(1)),
    "subjects": ("GET /subjects", lambda r: r.subjects()),
    "register": ("POST /subjects/s/versions", lambda r: r.register("s", TEXT)),
    "lookup": ("POST /subjects/s", lambda r: r.lookup("s", TEXT)),
    "versions": ("GET /subjects/s/versions", lambda r: r.versions("s")),
    "version": ("GET /subjects/s/versions/1", lambda r: r.version("s", 1)),
    "latest": ("GET /subjects/s/versions/latest", lambda r: r.latest("s")),
    "referenced_by": (
        "GET /subjects/s/versions/1/referencedby",
        lambda r: r.referenced_by("s", 1),
    ),
    "delete_subject": ("DELETE /subjects/s", lambda r: r.delete_subject("s")),
    "delete_version": ("DELETE /subjects/s/versions/1", lambda r: r.delete_version("s", 1)),
    "is_compatible": (
        "POST /compatibility/subjects/s/versions/latest",
        lambda r: r.is_compatible("s", TEXT),
    ),
    "config": ("GET /config", lambda r: r.config()),
    "set_config": ("PUT /config", lambda r: r.set_config(Config("FULL"))),
    "mode": ("GET /mode", lambda r: r.mode()),
    "set_mode": ("PUT /mode", lambda r: r.set_mode("READONLY")),
    "contexts": ("GET /contexts", lambda r: r.contexts()),
}
ODD = ['"text"', "7.5", "null", "true", "", "[[1]]", '[{"subject": 1}]', '{"schema": 5, "id": "x"}']


@pytest.mark.parametrize("name", READS)
def test_an_answer_of_another_kind_is_named_with_what_was_expected(name: str) -> None:
    request, call = READS[name]
    mapping_is_right = name in ("config", "set_config")

    async def main(registry: SchemaRegistry) -> list[RegistryError]:
        errors = []
        for text in ODD:
            if mapping_is_right and text.startswith("{"):
                text = '{"normalize": "yes"}'
            status = 200 if text else 204
            world.first.instead[request.split()[1]] = (status, text.encode(), "")
            errors.append(await fails(call(registry)))
        return errors

    with RegistryWorld() as world:
        for error in world.run_client(main, max_retries=0):
            assert error.context["request"] == request
            assert " was expected" in error.reason
            assert not error.retriable


@pytest.mark.parametrize("references", ["x", [1], [{"name": "n"}], {"a": 1}])
def test_references_of_another_kind_are_told(references: Any) -> None:
    with RegistryWorld() as world:
        text = json.dumps({**SCHEMA, "references": references})
        world.first.instead["/schemas/ids/1"] = (200, text.encode(), "")
        error = world.run_client(lambda registry: fails(registry.schema(1)))
    assert "was expected" in error.reason


@pytest.mark.parametrize("body", [b"<html>", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_told(body: bytes) -> None:
    with RegistryWorld() as world:
        world.first.instead["/config"] = (200, body, "")
        error = world.run_client(lambda registry: fails(registry.config()))
    assert error.reason == "the schema registry's answer is no JSON"


def test_a_code_that_is_no_number_does_not_hide_the_refusal() -> None:
    with RegistryWorld() as world:
        body = b'{"error_code": "abc", "message": {"a": 1}}'
        world.first.instead["/subjects/s/versions"] = (422, body, "")
        error = world.run_client(lambda registry: fails(registry.register("s", Schema("x"))))
    assert (error.status, error.code) == (422, 422)


def test_deletions_may_be_answered_with_nothing() -> None:
    async def main(registry: SchemaRegistry) -> None:
        await registry.delete_config("s")
        await registry.delete_mode("s")

    with RegistryWorld() as world:
        world.first.instead["/config/s"] = world.first.instead["/mode/s"] = (204, b"", "")
        world.run_client(main)
        assert len(world.first.asked) == 2
