"""The schemas of a registry on the pages: versions, what changed, and what may follow."""

from __future__ import annotations

import asyncio

import pytest

from moldau.client.serdes.registry.schemas import RegisteredSchema, Schema
from moldau.console.access import Access
from moldau.console.schemas import Line, difference
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.cli.shell import Shell
from tests.console.shown import browser
from tests.registry.served import USER, USER_2, instance

STRICTER = USER.replace('"name":"name"', '"name":"email"')
"""It has a field that version 2 has not, and no default for it."""


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
