"""The REST API: Confluent's paths, answers and error codes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from moldau.registry import catalogue
from moldau.registry.application import MEDIA_TYPE
from moldau.registry.catalogue import Catalogue
from moldau.values.compatibility import Work
from tests.registry.served import USER, USER_2, USER_BAD, Answers, Memory, in_memory

Check = Callable[[Answers, Memory], Awaitable[None]]


def on_registry(check: Check) -> None:
    async def main() -> None:
        async with in_memory() as (answers, memory):
            await check(answers, memory)

    asyncio.run(main())


def test_one_schema_has_one_id_and_a_subject_each_version_once() -> None:
    async def check(rest: Answers, _: Memory) -> None:
        assert (await rest.register("a-value", USER))["id"] == 1
        again = USER.replace('{"type":"record",', '{ "type" : "record",')
        assert (await rest.register("a-value", again))["id"] == 1
        assert (await rest.register("b-value", USER))["id"] == 1
        assert (await rest.register("a-value", USER_2))["id"] == 2
        assert await rest.get("/subjects") == ["a-value", "b-value"]
        assert await rest.get("/subjects?subjectPrefix=b") == ["b-value"]
        assert await rest.get("/subjects/a-value/versions") == [1, 2]
        latest = await rest.get("/subjects/a-value/versions/latest")
        assert (latest["version"], latest["id"]) == (2, 2)
        assert latest == await rest.get("/subjects/a-value/versions/-1")
        assert json.loads(latest["schema"]) == json.loads(USER_2)
        assert "schemaType" not in latest
        assert await rest.get("/schemas/ids/1/subjects") == ["a-value", "b-value"]
        assert {"subject": "b-value", "version": 1} in await rest.get("/schemas/ids/1/versions")
        assert await rest.get("/schemas/ids/1/schema") == USER
        by_guid = await rest.get(f"/schemas/guids/{latest['guid']}")
        assert by_guid["schema"] == latest["schema"]
        assert await rest.get(f"/schemas/guids/{latest['guid']}/ids") == [{"context": ".", "id": 2}]
        status, found = await rest.ask("POST", "/subjects/a-value", {"schema": USER})
        assert status == 200
        assert (found["version"], found["id"], found["subject"]) == (1, 1, "a-value")
        assert [each["version"] for each in await rest.get("/schemas?latestOnly=true")] == [2, 1]
        assert (await rest.get("/schemas/ids/1?fetchMaxId=true"))["maxId"] == 2

    on_registry(check)


def test_answers_have_the_registrys_media_type() -> None:
    async def check(rest: Answers, _: Memory) -> None:
        for path in ("/subjects", "/schemas/ids/7"):
            found = await rest.http.get(path)
            assert found.headers["content-type"] == MEDIA_TYPE
        assert await rest.get("/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]
        assert await rest.get("/") == {}
        assert (await rest.get("/v1/metadata/id"))["scope"]["clusters"]["kafka-cluster"]

    on_registry(check)


@pytest.mark.parametrize(
    ("method", "path", "body", "error"),
    [
        ("GET", "/nothing", None, (404, 404)),
        ("PATCH", "/subjects", None, None),
        ("GET", "/subjects/no/versions", None, (404, 40401)),
        ("GET", "/subjects/no/versions/1", None, (404, 40401)),
        ("GET", "/subjects/a/versions/9", None, (404, 40402)),
        ("GET", "/subjects/a/versions/0", None, (422, 42202)),
        ("GET", "/subjects/a/versions/x", None, (422, 42202)),
        ("GET", "/schemas/ids/99", None, (404, 40403)),
        ("GET", "/schemas/guids/99", None, (404, 40403)),
        ("POST", "/subjects/a", {"schema": '"int"'}, (404, 40403)),
        ("POST", "/subjects/no", {"schema": '"int"'}, (404, 40401)),
        ("DELETE", "/subjects/no", None, (404, 40401)),
        ("DELETE", "/subjects/a?permanent=true", None, (404, 40405)),
        ("DELETE", "/subjects/a/versions/1?permanent=true", None, (404, 40407)),
        ("DELETE", "/subjects/a/versions/7", None, (404, 40402)),
        ("GET", "/config/a", None, (404, 40408)),
        ("DELETE", "/config/a", None, (404, 40408)),
        ("GET", "/mode/a", None, (404, 40409)),
        ("POST", "/subjects/a/versions", {"schema": USER_BAD}, (409, 409)),
        ("POST", "/subjects/a/versions", {"schema": "{"}, (422, 42201)),
        ("POST", "/subjects/a/versions", {"schema": ""}, (422, 42201)),
        ("POST", "/subjects/a/versions", {}, (422, 42201)),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "schemaType": "X"}, (422, 42201)),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "id": 7}, (422, 42205)),
        ("POST", "/subjects/__GLOBAL/versions", {"schema": '"int"'}, (422, 42208)),
        ("PUT", "/config", {"compatibility": "SOME"}, (422, 42203)),
        ("PUT", "/config/:.:", {"compatibility": "NONE"}, (422, 42208)),
        ("PUT", "/mode/:.:", {"mode": "READONLY"}, (422, 42208)),
        ("PUT", "/mode", {"mode": "SOME"}, (422, 42204)),
        ("PUT", "/mode", {"mode": "IMPORT"}, (422, 42205)),
        ("PUT", "/mode/a", {"mode": "IMPORT"}, (422, 42205)),
        ("GET", "/subjects?limit=x", None, (400, 400)),
        (
            "POST",
            "/subjects/a/versions",
            {"schema": USER, "ruleSet": {"domainRules": [{"name": "r", "mode": "SOME"}]}},
            (422, 42210),
        ),
    ],
)
def test_a_refusal_has_confluents_code(
    method: str, path: str, body: object, error: tuple[int, int] | None
) -> None:
    async def check(rest: Answers, memory: Memory) -> None:
        await rest.register("a", USER)
        before = len(memory.log)
        if error is None:
            status, _ = await rest.ask(method, path, body)
            assert status == 405
        else:
            assert await rest.error(method, path, body) == error
        assert len(memory.log) == before

    on_registry(check)


def test_a_body_that_is_no_object_is_refused() -> None:
    async def check(rest: Answers, _: Memory) -> None:
        for body in (b"{", b"[]", b'"x"'):
            found = await rest.http.post("/subjects/a/versions", content=body)
            assert (found.status_code, found.json()["error_code"]) == (400, 400)

    on_registry(check)


def test_deleting_is_soft_first_and_then_for_good() -> None:
    async def check(rest: Answers, _: Memory) -> None:
        await rest.register("a", USER)
        await rest.register("a", USER_2)
        assert await rest.ask("DELETE", "/subjects/a/versions/1") == (200, 1)
        assert await rest.error("DELETE", "/subjects/a/versions/1") == (404, 40406)
        assert await rest.get("/subjects/a/versions") == [2]
        assert await rest.get("/subjects/a/versions?deleted=true") == [1, 2]
        assert await rest.get("/subjects/a/versions?deletedOnly=true") == [1]
        assert (await rest.get("/schemas/ids/1"))["schema"] == USER
        assert await rest.ask("DELETE", "/subjects/a/versions/1?permanent=true") == (200, 1)
        assert await rest.error("GET", "/schemas/ids/1") == (404, 40403)
        assert await rest.ask("DELETE", "/subjects/a") == (200, [2])
        assert await rest.error("DELETE", "/subjects/a") == (404, 40404)
        assert await rest.get("/subjects") == []
        assert await rest.get("/subjects?deletedOnly=true") == ["a"]
        assert await rest.get("/subjects?deleted=true") == ["a"]
        registered = await rest.register("a", USER_2)
        assert (registered["id"], registered["version"]) == (2, 3)

    on_registry(check)


def test_an_id_is_never_given_twice() -> None:
    """Not even when the schema with the highest id was deleted for good, and the log compacted."""

    async def check(rest: Answers, memory: Memory) -> None:
        await rest.register("a", USER)
        await rest.register("a", USER_2)
        await rest.ask("DELETE", "/subjects/a/versions/2")
        await rest.ask("DELETE", "/subjects/a/versions/2?permanent=true")
        compacted = Memory()
        last = {entry.key: entry for entry in memory.log}
        for entry in memory.log:
            if last[entry.key] is entry and entry.value is not None:
                compacted.put(entry)
        async with in_memory(compacted) as (again, _):
            assert (await again.register("b", '"int"'))["id"] == 3

    on_registry(check)


def test_a_referenced_schema_is_kept() -> None:
    async def check(rest: Answers, _: Memory) -> None:
        await rest.register("user", USER)
        reference = {"name": "User", "subject": "user", "version": 1}
        order = '{"type":"record","name":"Order","fields":[{"name":"by","type":"User"}]}'
        made = await rest.register("order", order, references=[reference])
        assert (await rest.get("/subjects/order/versions/1"))["references"] == [reference]
        assert await rest.get("/subjects/user/versions/1/referencedby") == [made["id"]]
        assert await rest.error("DELETE", "/subjects/user") == (422, 42206)
        assert await rest.error("DELETE", "/subjects/user/versions/1") == (422, 42206)
        bad = {"schema": order, "references": [reference | {"version": 7}]}
        assert await rest.error("POST", "/subjects/x/versions", bad) == (422, 42201)
        resolved = await rest.get(f"/schemas/ids/{made['id']}?format=resolved")
        assert json.loads(resolved["schema"])["fields"][0]["type"]["name"] == "User"
        assert await rest.ask("DELETE", "/subjects/order") == (200, [1])
        assert await rest.ask("DELETE", "/subjects/user") == (200, [1])

    on_registry(check)


def test_levels_apply_from_the_nearest_scope() -> None:
    async def check(rest: Answers, _: Memory) -> None:
        await rest.register("a", USER)
        assert await rest.get("/config") == {"compatibilityLevel": "BACKWARD"}
        assert await rest.ask("PUT", "/config", {"compatibility": "none"}) == (
            200,
            {"compatibility": "NONE"},
        )
        await rest.register("a", USER_BAD)
        await rest.ask("PUT", "/config/a", {"compatibility": "FULL"})
        assert await rest.get("/config/a") == {"compatibilityLevel": "FULL"}
        assert await rest.get("/config/b?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
        assert await rest.error("POST", "/subjects/a/versions", {"schema": '"int"'}) == (409, 409)
        assert await rest.ask("DELETE", "/config/a") == (200, {"compatibilityLevel": "FULL"})
        await rest.register("a", '"int"')
        assert await rest.ask("DELETE", "/config") == (200, {"compatibilityLevel": "NONE"})
        assert await rest.get("/config") == {"compatibilityLevel": "BACKWARD"}

    on_registry(check)


def test_compatibility_is_checked_against_one_version_or_all() -> None:
    async def check(rest: Answers, _: Memory) -> None:
        await rest.register("a", USER)
        path = "/compatibility/subjects/a/versions"
        for version in ("/latest", "/1", ""):
            good = await rest.ask("POST", f"{path}{version}", {"schema": USER_2})
            assert good == (200, {"is_compatible": True})
            status, bad = await rest.ask(
                "POST", f"{path}{version}?verbose=true", {"schema": USER_BAD}
            )
            assert (status, bad["is_compatible"]) == (200, False)
            assert "READER_FIELD_MISSING_DEFAULT_VALUE" in bad["messages"][0]
            assert "oldSchemaVersion: 1" in bad["messages"][1]
        assert await rest.error("POST", f"{path}/9", {"schema": USER}) == (404, 40402)
        missing = "/compatibility/subjects/no/versions"
        assert await rest.ask("POST", missing, {"schema": USER}) == (200, {"is_compatible": True})
        assert await rest.error("POST", f"{missing}/latest", {"schema": USER}) == (404, 40401)

    on_registry(check)


def test_an_import_keeps_ids_and_versions() -> None:
    async def check(rest: Answers, _: Memory) -> None:
        assert await rest.ask("PUT", "/mode", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
        assert await rest.error("POST", "/subjects/a/versions", {"schema": USER}) == (422, 42205)
        made = await rest.register("a", USER, id=40, version=7)
        assert (made["id"], made["version"]) == (40, 7)
        taken = {"schema": USER_2, "id": 40, "version": 8}
        assert await rest.error("POST", "/subjects/a/versions", taken) == (422, 42207)
        again = {"schema": USER_2, "id": 50, "version": 7}
        assert await rest.error("POST", "/subjects/a/versions", again) == (422, 42201)
        await rest.ask("PUT", "/mode", {"mode": "READWRITE"})
        for version in (1, 7, 9):
            wrong = {"schema": USER_2, "version": version}
            assert await rest.error("POST", "/subjects/a/versions", wrong) == (422, 42201)
        made = await rest.register("a", USER_2)
        assert (made["id"], made["version"]) == (41, 8)

    on_registry(check)


def test_a_read_only_subject_is_not_changed() -> None:
    async def check(rest: Answers, _: Memory) -> None:
        await rest.register("a", USER)
        await rest.ask("PUT", "/mode/a", {"mode": "READONLY"})
        assert await rest.get("/mode/a") == {"mode": "READONLY"}
        assert await rest.error("POST", "/subjects/a/versions", {"schema": USER_2}) == (422, 42205)
        assert await rest.error("DELETE", "/subjects/a") == (422, 42205)
        await rest.register("b", USER_2)
        assert await rest.ask("DELETE", "/mode/a") == (200, {"mode": "READONLY"})
        await rest.register("a", USER_2)

    on_registry(check)


def test_contexts_have_ids_of_their_own() -> None:
    async def check(rest: Answers, _: Memory) -> None:
        await rest.register("a", USER_2)
        await rest.register("a", USER)
        assert (await rest.register(":.dev:a", USER))["id"] == 1
        assert (await rest.register(":.:a", USER))["id"] == 2
        assert await rest.get("/contexts") == [".", ".dev"]
        assert await rest.get("/subjects") == [":.dev:a", "a"]
        assert await rest.get("/subjects?subjectPrefix=:.dev:") == [":.dev:a"]
        assert await rest.get("/subjects?subjectPrefix=:.:") == ["a"]
        assert await rest.get("/contexts/.dev/subjects") == [":.dev:a"]
        assert (await rest.get("/contexts/.dev/subjects/a/versions/1"))["subject"] == ":.dev:a"
        assert (await rest.get("/schemas/ids/1"))["schema"] == USER_2
        assert (await rest.get("/schemas/ids/1?subject=:.dev:a"))["schema"] == USER
        assert (await rest.get("/contexts/.dev/schemas/ids/1"))["schema"] == USER
        await rest.ask("PUT", "/config/:.dev:", {"compatibility": "NONE"})
        await rest.register(":.dev:a", '"int"')
        assert await rest.error("DELETE", "/contexts/.dev") == (422, 42211)
        await rest.ask("DELETE", "/subjects/:.dev:a")
        await rest.ask("DELETE", "/subjects/:.dev:a?permanent=true")
        assert (await rest.ask("DELETE", "/contexts/.dev"))[0] == 204
        assert await rest.get("/contexts") == ["."]

    on_registry(check)


def test_metadata_and_rules_are_kept_and_inherited() -> None:
    async def check(rest: Answers, _: Memory) -> None:
        metadata = {"properties": {"owner": "shop"}}
        rules = {
            "domainRules": [
                {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
            ]
        }
        await rest.register("a", USER, metadata=metadata, ruleSet=rules)
        await rest.register("a", USER_2)
        second = await rest.get("/subjects/a/versions/2")
        assert (second["metadata"], second["ruleSet"]) == (metadata, rules)
        other = {"properties": {"owner": "till"}}
        made = await rest.register("a", USER_2, metadata=other)
        assert (made["id"], made["version"]) == (3, 3)
        old = await rest.register("a", USER)  # by a producer that knows of no metadata
        assert (old["id"], old["version"]) == (1, 1)
        found = await rest.get("/subjects/a/metadata?key=owner&value=shop")
        assert found["version"] == 2

    on_registry(check)


def test_a_subject_may_have_slashes_and_an_alias() -> None:
    async def check(rest: Answers, _: Memory) -> None:
        await rest.register("shop%2Forder.proto", USER)
        assert await rest.get("/subjects") == ["shop/order.proto"]
        assert await rest.get("/subjects/shop%2Forder.proto/versions") == [1]
        await rest.ask("PUT", "/config/old", {"alias": "shop/order.proto"})
        assert (await rest.get("/subjects/old/versions/1"))["subject"] == "shop/order.proto"

    on_registry(check)


def test_a_field_of_a_wrong_kind_is_named_in_words_of_json() -> None:
    async def check(rest: Answers, _: Memory) -> None:
        for field, value, kind in (
            ("alias", 5, "text"),
            ("normalize", "yes", "true or false"),
            ("defaultRuleSet", [], "an object"),
        ):
            status, body = await rest.ask("PUT", "/config/s", {field: value})
            assert (status, kind in str(body)) == (400, True), body

    on_registry(check)


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    async def check(rest: Answers, _: Memory) -> None:
        for kind, part, end in (
            ("AVRO", '{"type":"array","items":', '"int"'),
            ("JSON", '{"items":', "true"),
        ):
            for depth in (300, 450, 900, 100_000):
                body = {"schema": part * depth + end + "}" * depth, "schemaType": kind}
                for _again in range(2):
                    status, _found = await rest.ask("POST", f"/subjects/deep-{kind}/versions", body)
                    assert status in (200, 409, 422)

    on_registry(check)


def test_a_check_over_more_schemas_than_one_may_compare_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalogue, "Work", partial(Work, 40))

    async def check(rest: Answers, _: Memory) -> None:
        await rest.ask("PUT", "/config", {"compatibility": "FULL_TRANSITIVE"})
        for number in range(20):
            schema = USER_2.replace("age", f"age{number}")
            status, body = await rest.ask("POST", "/subjects/a/versions", {"schema": schema})
            if status != 200:
                break
        assert (status, body["error_code"]) == (422, 42209), body
        assert "set a level that is not transitive" in body["message"]
        assert await rest.get("/subjects/a/versions") == [*range(1, number + 1)]
        await rest.ask("PUT", "/config", {"compatibility": "FULL"})
        await rest.register("a", schema)

    on_registry(check)


def test_a_registration_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[object] = []
    problems = Catalogue.problems

    def counted(self: Catalogue, *given: Any) -> list[str]:
        compared.append(given)
        return problems(self, *given)

    monkeypatch.setattr(Catalogue, "problems", counted)

    async def check(rest: Answers, _: Memory) -> None:
        await rest.register("a", USER)
        compared.clear()
        await rest.register("a", USER_2)
        assert len(compared) == 1
        await rest.register("a", USER)
        await rest.register("a", USER_2)
        assert len(compared) == 1, "they are known"

    on_registry(check)
