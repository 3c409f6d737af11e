"""Secrets that only their type tells of, of a worker that answers with all values."""

from __future__ import annotations

import asyncio
import re

import pytest

from moldau.config.hiding import HIDDEN
from moldau.console.secret_settings import plugins_of
from moldau.runtime.real import RealRuntime
from tests.console.apache_stub import CONFIG, NAME, QUERY, SINK, apache_stub
from tests.console.forms import fields_of
from tests.console.shown import browser

SECRETS = re.compile("471[1-3]")


def test_the_plugins_of_a_config_are_those_of_the_connector_and_its_parts() -> None:
    assert dict(plugins_of(CONFIG)) == {
        "": "com.example.PinSink",
        "transforms.seal.": "com.example.Seal",
        "value.converter.": "com.example.Converter",
    }


def row(page: str, name: str) -> str:
    """The value that a page shows of a setting."""
    (found,) = re.findall(rf"<code>{re.escape(name)}</code></td><td><code>(.*?)</code>", page)
    return str(found)


@pytest.mark.real
def test_a_secret_by_its_type_is_neither_shown_nor_lost() -> None:
    async def run() -> None:
        async with (
            RealRuntime("stub") as runtime,
            apache_stub(runtime) as (url, stub),
            browser("127.0.0.1:9", connect=url) as client,
        ):
            page = (await client.get(f"/connectors/{NAME}")).text
            assert not SECRETS.search(page)
            assert (row(page, "pin"), row(page, "batch")) == (HIDDEN, "7")
            assert row(page, "transforms.seal.salt") == HIDDEN

            where = f"/change-connector/{NAME}"
            form = (await client.get(where)).text
            given = fields_of(form)
            assert not SECRETS.search(form)
            assert given["s.query"] == QUERY.replace("\n", "\r\n")
            done = await client.post(where, data={**given, "s.batch": "8", "does": "save"})
            assert done.url.path == f"/connectors/{NAME}"
            assert stub.patches == [{"batch": "8"}]
            asked = {**given, "s.pin": "1", "does": "check"}
            again = fields_of((await client.post(where, data=asked)).text)
            await client.post(where, data={**again, "s.batch": "9", "does": "save"})
            assert stub.patches[1:] == [{"batch": "9"}], "no secret is lost after a check"

    asyncio.run(run())


@pytest.mark.real
def test_a_secret_goes_to_another_server_only_after_it_was_written_again() -> None:
    async def run() -> None:
        async with (
            RealRuntime("stub") as runtime,
            apache_stub(runtime) as (url, stub),
            browser("127.0.0.1:9", connect=url) as client,
        ):
            where = f"/change-connector/{NAME}"
            given = fields_of((await client.get(where)).text)
            given["more"] += "\r\nsink.url=http://elsewhere"
            stub.checks.clear()
            for does in ("check", "save"):
                asked = await client.post(where, data={**given, "does": does})
                assert asked.status_code == 400
                assert "write these again: pin, transforms.seal.salt, value" in asked.text
            new = {"connector.class": SINK, "name": NAME, "s.pin": HIDDEN, "does": "check"}
            refused = await client.post("/new-connector", data=new)
            assert (refused.status_code, "write it whole" in refused.text) == (400, True)
            assert [each["name"] for each in stub.checks] == [NAME, NAME]
            assert not SECRETS.search(str(stub.checks))
            assert stub.patches == []
            again = {**fields_of(asked.text), "s.pin": "5", "does": "save"}
            await client.post(where, data=again)
            assert stub.patches == [
                {
                    "pin": "5",
                    "sink.url": "http://elsewhere",
                    "transforms.seal.salt": None,
                    "value.converter.basic": None,
                }
            ]

    asyncio.run(run())


@pytest.mark.real
def test_a_form_of_settings_that_were_changed_meanwhile_changes_nothing_at_once() -> None:
    async def run() -> None:
        async with (
            RealRuntime("stub") as runtime,
            apache_stub(runtime) as (url, stub),
            browser("127.0.0.1:9", connect=url) as client,
        ):
            where = f"/change-connector/{NAME}"
            given = fields_of((await client.get(where)).text)
            stub.settings["batch"] = "70"
            late = await client.post(where, data={**given, "s.query": "select c", "does": "save"})
            assert late.status_code == 409
            assert "changed meanwhile" in late.text
            assert "as they stand here: batch, query" in late.text
            assert stub.patches == []
            again = fields_of(late.text)
            assert (again["s.query"], again["s.batch"]) == ("select c", "7")
            await client.post(where, data={**again, "does": "save"})
            assert stub.patches == [{"batch": "7", "query": "select c"}]

    asyncio.run(run())


@pytest.mark.real
@pytest.mark.parametrize(("status", "batch", "pin"), [(404, "7", "4711"), (500, HIDDEN, HIDDEN)])
def test_a_worker_that_cannot_say_which_are_secrets(status: int, batch: str, pin: str) -> None:
    """Without the question, names tell; if it fails, all settings that might be are hidden."""

    async def run() -> None:
        async with RealRuntime("stub") as runtime, apache_stub(runtime) as (url, stub):
            stub.status = status
            async with browser("127.0.0.1:9", connect=url) as client:
                page = (await client.get(f"/connectors/{NAME}")).text
                assert (row(page, "batch"), row(page, "pin")) == (batch, pin)
                assert row(page, "topics") == "orders"

    asyncio.run(run())
