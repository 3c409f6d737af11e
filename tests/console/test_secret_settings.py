"""Secrets that only their type tells of, of a worker that answers with all values."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final

import httpx2
import pytest

from moldau.config.hiding import HIDDEN
from moldau.console.pages.secret_settings import plugins_of
from moldau.runtime.real import RealRuntime
from tests.console.apache_stub import CONFIG, NAME, QUERY, SINK, ApacheStub, apache_stub
from tests.console.forms import fields_of
from tests.console.shown import browser

SECRETS = re.compile("471[1-3]")
FORM: Final = f"/change-connector/{NAME}"
Given = dict[str, str]


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


def on_worker(check: Callable[[ApacheStub, httpx2.AsyncClient], Awaitable[None]]) -> None:
    """Run a check with a worker as Apache Kafka's, and a browser of its console."""

    async def run() -> None:
        async with (
            RealRuntime("stub") as runtime,
            apache_stub(runtime) as (url, stub),
            browser("127.0.0.1:9", connect=url) as client,
        ):
            await check(stub, client)

    asyncio.run(run())


async def loaded(client: httpx2.AsyncClient) -> Given:
    """What a browser sends of the connector's form that was left as it is."""
    form = (await client.get(FORM)).text
    assert not SECRETS.search(form)
    return fields_of(form)


async def sent(client: httpx2.AsyncClient, does: str, given: Given, **more: str) -> httpx2.Response:
    """The answer to a form. `more` are settings: fields without their `s.`."""
    own = {f"s.{name}": text for name, text in more.items()}
    return await client.post(FORM, data={**given, **own, "does": does})


@pytest.mark.real
def test_a_secret_by_its_type_is_neither_shown_nor_lost() -> None:
    async def check(stub: ApacheStub, client: httpx2.AsyncClient) -> None:
        page = (await client.get(f"/connectors/{NAME}")).text
        assert not SECRETS.search(page)
        assert (row(page, "pin"), row(page, "batch")) == (HIDDEN, "7")
        assert row(page, "transforms.seal.salt") == HIDDEN

        given = await loaded(client)
        assert given["s.query"] == QUERY.replace("\n", "\r\n")
        done = await sent(client, "save", given, batch="8")
        assert done.url.path == f"/connectors/{NAME}"
        assert stub.patches == [{"batch": "8"}]
        again = fields_of((await sent(client, "check", given, pin="1")).text)
        await sent(client, "save", again, batch="9")
        assert stub.patches[1:] == [{"batch": "9"}], "no secret is lost after a check"

    on_worker(check)


@pytest.mark.real
def test_a_secret_goes_to_another_server_only_after_it_was_written_again() -> None:
    async def check(stub: ApacheStub, client: httpx2.AsyncClient) -> None:
        given = await loaded(client)
        given["more"] += "\r\nsink.url=http://elsewhere"
        stub.checks.clear()
        for does in ("check", "save"):
            asked = await sent(client, does, given)
            assert asked.status_code == 400
            assert "write these again: pin, transforms.seal.salt, value" in asked.text
        new = {"connector.class": SINK, "name": NAME, "s.pin": HIDDEN, "does": "check"}
        refused = await client.post("/new-connector", data=new)
        assert (refused.status_code, "write it whole" in refused.text) == (400, True)
        assert [each["name"] for each in stub.checks] == [NAME, NAME]
        assert not SECRETS.search(str(stub.checks))
        assert stub.patches == []
        await sent(client, "save", fields_of(asked.text), pin="5")
        assert stub.patches == [
            {
                "pin": "5",
                "sink.url": "http://elsewhere",
                "transforms.seal.salt": None,
                "value.converter.basic": None,
            }
        ]

    on_worker(check)


@pytest.mark.real
def test_a_form_of_settings_that_were_changed_meanwhile_changes_nothing_at_once() -> None:
    async def check(stub: ApacheStub, client: httpx2.AsyncClient) -> None:
        given = await loaded(client)
        stub.settings["batch"] = "70"
        late = await sent(client, "save", given, query="select c")
        assert late.status_code == 409
        assert "changed meanwhile" in late.text
        assert "as they stand here: batch, query" in late.text
        assert stub.patches == []
        again = fields_of(late.text)
        assert (again["s.query"], again["s.batch"]) == ("select c", "7")
        await sent(client, "save", again)
        assert stub.patches == [{"batch": "7", "query": "select c"}]

    on_worker(check)


@pytest.mark.real
@pytest.mark.parametrize(("status", "batch", "pin"), [(404, "7", "4711"), (500, HIDDEN, HIDDEN)])
def test_a_worker_that_cannot_say_which_are_secrets(status: int, batch: str, pin: str) -> None:
    """Without the question, names tell; if it fails, all settings that might be are hidden."""

    async def check(stub: ApacheStub, client: httpx2.AsyncClient) -> None:
        stub.status = status
        page = (await client.get(f"/connectors/{NAME}")).text
        assert (row(page, "batch"), row(page, "pin")) == (batch, pin)
        assert row(page, "topics") == "orders"

    on_worker(check)
