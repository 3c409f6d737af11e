"""The registry is changed on the pages: schemas, compatibility levels, deletions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from moldau.client.serdes.registry.schemas import RegisteredSchema
from moldau.console.access.roles import Policy, Role
from moldau.console.access.visitor import Access
from moldau.console.pages.schemas import Line, difference
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from moldau.values.schema import Schema
from tests.cli.shell import Shell
from tests.console.forms import confirm
from tests.console.shown import browser
from tests.registry.served import USER, USER_2, USER_BAD, Answers, instance

STRICTER = USER.replace('"name":"name"', '"name":"email"')
"""It has a field that version 2 has not, and no default for it."""

SUBJECT = "users/eu-value"
QUOTED = "users%2Feu-value"
API = f"/subjects/{QUOTED}"
ORDER = '{"type":"record","name":"Order","fields":[{"name":"by","type":"User"}]}'
PAGE = f"/schemas/{SUBJECT}"
NEW = {"subject": SUBJECT, "type": "AVRO", "schema": USER}


@asynccontextmanager
async def shown(role: Role) -> AsyncIterator[tuple[httpx2.AsyncClient, Answers]]:
    """Pages with a registry, for visitors of this role."""
    async with (
        EmbeddedBroker() as broker,
        RealRuntime("registry") as runtime,
        instance(runtime, broker) as (answers, _),
    ):
        url = str(answers.http.base_url)
        access = Access(policy=Policy(fallback=role))
        async with browser(broker.bootstrap_servers, access, registry=url) as client:
            yield client, answers


async def registers(client: httpx2.AsyncClient, answers: Answers) -> None:
    """First in a subject that is new, then the next version on the subject's own page."""
    broken = await client.post("/new-schema/plan", data={**NEW, "schema": "{nonsense"})
    assert (broken.status_code, 'role="alert"' in broken.text) == (200, True)
    assert "{nonsense" in broken.text, "what was typed is there to be repaired"
    checked = await client.post("/new-schema/plan", data=NEW)
    assert f"{SUBJECT} is a new subject" in checked.text
    assert await answers.get("/subjects") == [], "a check registers nothing"
    done = await client.post("/new-schema", data=NEW)
    assert done.url.path == PAGE

    again = await client.post("/new-schema/plan", data={**NEW, "schema": USER_BAD})
    assert f"It may not follow in {SUBJECT}" in again.text
    refused = await client.post("/new-schema", data={**NEW, "schema": USER_BAD})
    assert 'role="alert"' in refused.text
    bad = await client.post(f"{PAGE}/check", data={"schema": USER_BAD})
    assert "Register it" not in bad.text
    good = await client.post(f"{PAGE}/check", data={"schema": USER_2})
    assert "Register it" in good.text
    await client.post(f"{PAGE}/versions", data={"schema": USER_2})
    assert await answers.get("/subjects/users%2Feu-value/versions") == [1, 2]


async def sets_levels(client: httpx2.AsyncClient, answers: Answers) -> None:
    path, of_subject = "/schema-level/plan", "/config/users%2Feu-value"
    plan = await client.post(path, data={"subject": SUBJECT, "level": "FULL"})
    assert "have to read each other" in plan.text
    assert f"+ {SUBJECT}: FULL" in plan.text
    await confirm(client, plan)
    assert (await answers.get(of_subject))["compatibilityLevel"] == "FULL"
    same = await client.post(path, data={"subject": SUBJECT, "level": "FULL"})
    assert "It is so already" in same.text
    back = await client.post(path, data={"subject": SUBJECT, "level": ""})
    assert f"- {SUBJECT}: FULL" in back.text
    await confirm(client, back)
    inherited = await client.get(PAGE)
    assert "BACKWARD</b> compatibility" in inherited.text
    wrong = await client.post(path, data={"subject": SUBJECT, "level": "HALF"})
    assert (wrong.status_code, "level: NONE" in wrong.text) == (400, True)


async def sets_the_level_of_all(client: httpx2.AsyncClient, answers: Answers) -> None:
    plan = await client.post("/schema-level/plan", data={"subject": "", "level": "NONE"})
    await confirm(client, plan)
    assert (await answers.get("/config"))["compatibilityLevel"] == "NONE"


async def deletes(client: httpx2.AsyncClient, answers: Answers) -> None:
    one = await client.post(f"{PAGE}/deletion", data={"version": "1"})
    assert f"- {SUBJECT}, version 1, id 1" in one.text
    untyped = await confirm(client, one, typed="users")
    assert (untyped.status_code, f"to remove it: {SUBJECT}" in untyped.text) == (400, True)
    await confirm(client, one, typed=SUBJECT)
    assert await answers.get("/subjects/users%2Feu-value/versions") == [2]
    none = await client.post(f"{PAGE}/deletion", data={"version": "1"})
    assert (none.status_code, "the subject has 2" in none.text) == (400, True)
    whole = await client.post(f"{PAGE}/deletion", data={"version": "all"})
    listed = await confirm(client, whole, typed=SUBJECT)
    assert (listed.url.path, SUBJECT in listed.text) == ("/schemas", False)
    assert await answers.get("/subjects") == []


async def tells_all_that_goes_and_what_keeps_it(
    client: httpx2.AsyncClient, answers: Answers
) -> None:
    for schema in (USER, USER_2):
        await answers.register(QUOTED, schema)
    reference = {"name": "User", "subject": SUBJECT, "version": 2}
    await answers.register("order", ORDER, references=[reference])
    kept = await client.post(f"{PAGE}/deletion", data={"version": "all"})
    assert "Version 2 stays, because these refer to it: order version 1." in kept.text
    assert 'name="typed"' not in kept.text, "there is nothing to confirm"
    assert f"- {SUBJECT}, version 1" not in kept.text
    await answers.ask("DELETE", "/subjects/order")
    await answers.ask("DELETE", f"{API}/versions/1")
    await answers.ask("PUT", f"/config/{QUOTED}", {"compatibility": "NONE"})
    whole = await client.post(f"{PAGE}/deletion", data={"version": "all"})
    for told in (
        f"- {SUBJECT}, version 2, id 2",
        f"- {SUBJECT}, its compatibility level NONE",
        f"`moldau schema delete {SUBJECT} --permanent` removes them",
        "what was deleted before: version 1.",
    ):
        assert told in whole.text, told
    await answers.register(QUOTED, USER_BAD)
    late = await confirm(client, whole, typed=SUBJECT)
    assert (late.status_code, "has the versions 2, 3 now" in late.text) == (400, True)
    assert await answers.get(f"{API}/versions") == [2, 3]


async def shows_a_number_with_its_new_schema(client: httpx2.AsyncClient, answers: Answers) -> None:
    """A subject was removed for good, and registered again."""
    await answers.ask("DELETE", API)
    await answers.ask("DELETE", f"{API}?permanent=true")
    for kind, schema in (("AVRO", USER), ("JSON", '{"title": "Person"}')):
        await answers.register(QUOTED, schema, schemaType=kind)
        page = await client.get(PAGE)
        assert ("Person" in page.text) is (kind == "JSON")
        checked = await client.post(f"{PAGE}/check", data={"schema": schema})
        assert f"of the type {kind}" in checked.text
        for query in ("", "?permanent=true"):
            assert await answers.ask("DELETE", f"{API}{query}") == (200, [1])


@pytest.mark.real
def test_a_deletion_is_told_as_the_registry_makes_it() -> None:
    async def run() -> None:
        async with shown(Role.ADMIN) as (client, answers):
            await tells_all_that_goes_and_what_keeps_it(client, answers)
            await shows_a_number_with_its_new_schema(client, answers)

    asyncio.run(run())


@pytest.mark.real
def test_an_admin_registers_sets_levels_and_deletes() -> None:
    async def run() -> None:
        async with shown(Role.ADMIN) as (client, answers):
            await registers(client, answers)
            await sets_levels(client, answers)
            await sets_the_level_of_all(client, answers)
            await deletes(client, answers)

    asyncio.run(run())


@pytest.mark.real
def test_an_operator_registers_and_neither_deletes_nor_sets_the_level_of_all() -> None:
    async def run() -> None:
        async with shown(Role.OPERATOR) as (client, answers):
            await client.post("/new-schema", data=NEW)
            assert await answers.get("/subjects") == [SUBJECT]
            page = (await client.get(PAGE)).text
            assert ("/schema-level/plan" in page, "/deletion" in page) == (True, False)
            assert "/schema-level/plan" not in (await client.get("/schemas")).text
            for path, form in (
                ("/schema-level", {"subject": "", "level": "NONE"}),
                ("/schema-level", {"subject": ":.prod:", "level": "NONE"}),
                ("/schema-level", {"subject": ":.:", "level": "NONE"}),
                ("/schema-level", {"subject": ":.prod", "level": "NONE"}),
                ("/schema-level", {"subject": ":*:a", "level": "NONE"}),
                (f"{PAGE}/deletion", {"version": "all"}),
                (f"{PAGE}/delete", {"version": "all", "typed": SUBJECT}),
            ):
                assert (await client.post(path, data=form)).status_code == 403, (path, form)
            assert await answers.get("/subjects") == [SUBJECT]
            own = await client.post("/schema-level", data={"subject": SUBJECT, "level": "FULL"})
            assert (own.status_code, own.url.path) == (200, PAGE)

    asyncio.run(run())


@pytest.mark.real
def test_a_viewer_changes_nothing() -> None:
    async def run() -> None:
        async with shown(Role.VIEWER) as (client, answers):
            await answers.register("users%2Feu-value", USER)
            page = (await client.get(PAGE)).text
            assert page.count('method="post"') == 1, "that of the check"
            for path in ("/new-schema", "/new-schema/plan", f"{PAGE}/versions", "/schema-level"):
                assert (await client.post(path, data=NEW)).status_code == 403, path
            assert await answers.get("/subjects/users%2Feu-value/versions") == [1]

    asyncio.run(run())


def registered(text: str, version: int) -> RegisteredSchema:
    return RegisteredSchema("s", version, version, Schema(text))


def test_a_comparison_is_of_the_indented_texts() -> None:
    old, new = registered('{"a": 1, "b": 2}', 1), registered('{"a":1,"b":20000000000000000000}', 2)
    lines = difference(old, new)
    assert Line("gone", '-  "b": 2') in lines
    assert Line("new", '+  "b": 20000000000000000000') in lines
    assert difference(old, registered('{"a":1,\n"b":2}', 2)) == []


@pytest.mark.real
def test_subjects_versions_what_changed_and_what_may_follow() -> None:
    async def run() -> None:
        async with (
            EmbeddedBroker() as broker,
            RealRuntime("registry") as runtime,
            instance(runtime, broker) as (answers, _),
        ):
            servers, url = broker.bootstrap_servers, str(answers.http.base_url)
            await answers.register("users%2Feu-value", USER)
            await answers.register("users%2Feu-value", USER_2)
            async with browser(servers, Access(), registry=url) as client:
                listed = (await client.get("/schemas")).text
                assert "users/eu-value" in listed
                assert "BACKWARD</b> compatibility" in listed
                assert "No subject has this" in (await client.get("/schemas?q=none")).text
                page = (await client.get("/schemas/users/eu-value")).text
                assert "Changed from version 1 to 2" in page
                assert '<span class="new">+' in page
                first = await client.get("/schemas/users/eu-value?version=1")
                assert "Changed from" not in first.text
                path = "/schemas/users/eu-value/check"
                good = await client.post(path, data={"schema": USER_2})
                assert "It may follow" in good.text
                bad = await client.post(path, data={"schema": STRICTER})
                assert (bad.status_code, "It may not follow" in bad.text) == (200, True)
                assert await answers.get("/subjects/users%2Feu-value/versions") == [1, 2]
                for path, status, text in (
                    ("/schemas/none", 404, "It is not there"),
                    ("/schemas/users/eu-value?version=7", 400, "the subject has 1, 2"),
                ):
                    failed = await client.get(path)
                    assert (failed.status_code, text in failed.text) == (status, True), path
            async with browser(servers) as client:
                assert "--registry URL" in (await client.get("/schemas")).text

    asyncio.run(run())


def test_a_console_with_an_address_of_no_registry_does_not_start() -> None:
    done = Shell("127.0.0.1:1")("console", "--registry", "foo")
    assert done.code == 2, done
    assert done.err.startswith("moldau: --registry: ")
