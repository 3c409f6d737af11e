"""The form of a connector: made of the worker's answer, with its errors, and without secrets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from moldau.config.hiding import HIDDEN
from moldau.console.access.visitor import Access
from moldau.console.pages.connector_form import (
    Before,
    changes_of,
    config_of,
    form_from,
    misdirected,
)
from moldau.console.pages.rendering import BadForm
from moldau.logging import Loggers
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.shown import browser
from tests.console.worker import QUOTED, SOURCE, worker


def said(name: str, kind: str = "STRING", **more: Any) -> dict[str, Any]:
    """What a worker says about a setting."""
    errors = more.pop("errors", [])
    definition = {"name": name, "type": kind, "required": False, "default_value": None} | more
    value = {"name": name, "value": None, "recommended_values": [], "errors": errors}
    return {"definition": definition, "value": value}


def test_settings_stand_in_their_groups_with_errors_and_defaults() -> None:
    answer = {
        "error_count": 2,
        "configs": [
            said("connector.class"),
            said("url", group="Database", required=True, errors=["Missing url"]),
            said("batch", "INT", group="Writes", default_value="10"),
            said("fast", "BOOLEAN", group="Writes", default_value="true"),
            {"definition": None, "value": {"name": "odd", "errors": ["no such part"]}},
        ],
    }
    form = form_from(
        answer, {"connector.class": "c", "batch": "7", "transforms.a.type": "T"}, Before()
    )
    assert [(each.title, each.is_open) for each in form.groups] == [
        ("Database", True), ("Writes", True),
    ]  # fmt: skip
    url, batch, fast = (each for group in form.groups for each in group.fields)
    assert (url.is_required, url.errors) == (True, ["Missing url"])
    assert (batch.value, batch.default) == ("7", "10")
    assert fast.choices == ["true", "false"]
    assert (form.problems, form.more) == (["odd: no such part"], "transforms.a.type=T")


def test_a_secret_is_not_sent_to_the_browser_and_kept_if_the_field_is_empty() -> None:
    answer = {"configs": [said("password", "PASSWORD", default_value="x")]}
    before = {"connector.class": "c", "password": HIDDEN, "topic": "t", "old": "1"}
    (field,) = form_from(answer, before, Before(before)).groups[0].fields
    assert (field.value, field.default, field.is_kept) == ("", "", True)

    marked = {"s.password": "", "k.password": "1", "s.topic": "u", "does": "save"}
    kept = config_of(marked, Before(before))
    assert changes_of(before, kept) == {"topic": "u", "old": None}
    new = config_of({"s.password": "p", "more": "a.b = c=d\n\n"}, Before(before))
    assert changes_of(before, new) == {"password": "p", "a.b": "c=d", "topic": None, "old": None}


JAAS = "consumer.override.sasl.jaas.config"
RAW = {
    "connector.class": "c",
    "pin": "4711",
    "connection.url": "jdbc:mysql://db/shop?user=u&password=hunter2&ssl=true",
    JAAS: 'Plain required password="hunter2";',
    "store.url": "https://me:hunter2@store/x",
    "topic": "t",
}
"""The config of a connector as a worker of Apache Kafka tells it: with all secrets."""


def fields_of(config: dict[str, str]) -> dict[str, str]:
    """The fields that a browser sends back when nothing was changed in the form of a config."""
    answer = {
        "configs": [
            said("pin", "PASSWORD"),
            said("connection.url", errors=[config["connection.url"]]),
            said("topic"),
        ]
    }
    form = form_from(answer, config, Before(config))
    fields = [each for group in form.groups for each in group.fields]
    assert "hunter2" not in str(form)
    assert "4711" not in str(form)
    sent = {f"s.{each.name}": each.value for each in fields}
    return sent | {f"k.{each.name}": "1" for each in fields if each.is_kept} | {"more": form.more}


def test_secrets_that_a_worker_tells_are_neither_shown_nor_lost() -> None:
    sent = fields_of(RAW)
    assert sent["s.connection.url"] == f"jdbc:mysql://db/shop?user=u&password={HIDDEN}&ssl=true"
    changed = changes_of(
        RAW, {"connector.class": "c", **config_of(sent | {"s.topic": "u"}, Before(RAW))}
    )
    assert changed == {"topic": "u"}
    new = config_of({**sent, "s.pin": "4712", "more": "store.url=https://store"}, Before(RAW))
    assert changes_of(RAW, {"connector.class": "c", **new}) == {
        "pin": "4712",
        "store.url": "https://store",
        JAAS: None,
    }


@pytest.mark.parametrize(
    ("changes", "line", "asked"),
    [
        ({"s.topic": "u"}, "", []),
        ({}, "transforms.a.type=T", []),
        ({"s.connection.url": "jdbc:mysql://evil/shop"}, "", [JAAS, "pin", "store.url"]),
        ({"s.connector.class": "d"}, "", ["connection.url", JAAS, "pin", "store.url"]),
        ({}, "proxy=evil", ["connection.url", JAAS, "pin", "store.url"]),
        ({}, "es.nodes=evil", ["connection.url", JAAS, "pin", "store.url"]),
        ({"s.topic": "10.0.0.9:80"}, "", ["connection.url", JAAS, "pin", "store.url"]),
        ({"s.topic": "[fe80::1]:80"}, "", ["connection.url", JAAS, "pin", "store.url"]),
        ({"s.topic": "evil:8080", "s.pin": "4711"}, "", ["connection.url", JAAS, "store.url"]),
    ],
)
def test_secrets_do_not_go_to_another_server_or_class_unless_they_are_written_again(
    changes: dict[str, str], line: str, asked: list[str]
) -> None:
    sent = fields_of(RAW)
    form = {**sent, **changes, "more": f"{sent['more']}\n{line}"}
    config = {"connector.class": "c", **config_of(form, Before(RAW))}
    assert misdirected(form, config, Before(RAW)) == asked


def test_several_lines_are_not_changed_by_the_ends_of_lines_of_a_browser() -> None:
    before = {"connector.class": "c", "query": "select a\nfrom b", "note": "one\ntwo"}
    form = form_from({"configs": [said("query")]}, before, Before(before))
    assert form.more == "note=one\\ntwo"
    sent = {"s.query": "select a\r\nfrom b\r\n", "more": form.more}
    assert config_of(sent, Before(before)) == {"query": before["query"], "note": before["note"]}
    new = config_of({**sent, "s.query": "select a\r\nfrom c"}, Before(before))
    assert new["query"] == "select a\nfrom c"
    with pytest.raises(BadForm, match="several lines"):
        config_of({"more": "note=one"}, Before(before))


def test_what_a_person_has_just_written_is_shown_as_it_is() -> None:
    typed = {"connector.class": "c", "store.url": "https://me:hunter2@store"}
    assert form_from({"configs": []}, typed, Before()).more == "store.url=https://me:hunter2@store"


def test_a_line_that_is_no_setting_is_told() -> None:
    with pytest.raises(BadForm, match="line 2"):
        config_of({"more": "a=b\nnonsense"}, Before())


@pytest.mark.real
def test_a_connector_is_made_and_changed_by_its_form(tmp_path: Path) -> None:
    lines: list[str] = []

    async def run() -> None:
        async with EmbeddedBroker() as broker, RealRuntime("worker") as runtime:
            audit = Loggers(runtime.clock, lines.append).get("moldau.console.audit")
            admin = Access(is_admin=True, audit=audit)
            async with worker(runtime, broker, tmp_path) as url:
                async with browser(broker.bootstrap_servers, admin, connect=url) as client:
                    listed = (await client.get("/new-connector")).text
                    assert f"class={quote(SOURCE)}" in listed
                    page = (await client.get(f"/new-connector?class={SOURCE}")).text
                    assert 'name="s.topic"' in page
                    assert "aria-invalid" not in page
                    given = {"connector.class": SOURCE, "name": "made", "s.tasks.max": "many"}
                    wrong = await client.post("/new-connector", data={**given, "does": "check"})
                    assert 'id="s-tasks.max-errors"' in wrong.text
                    assert 'id="s-topic-errors"' in wrong.text
                    assert (await client.post("/new-connector", data=given)).status_code == 400
                    given |= {"s.tasks.max": "1", "s.topic": "t", "s.file": str(tmp_path / "none")}
                    right = await client.post("/new-connector", data={**given, "does": "check"})
                    assert "finds nothing wrong" in right.text
                    more = {"more": "producer.override.linger.ms=5", "does": "save"}
                    made = await client.post("/new-connector", data=given | more)
                    assert (made.status_code, made.url.path) == (200, "/connectors/made"), made.text
                    again = await client.post("/new-connector", data=given)
                    assert (again.status_code, "made" in again.text) == (400, True)

                    form = (await client.get("/change-connector/made")).text
                    assert 'value="t"' in form
                    assert "producer.override.linger.ms=5" in form
                    where = "/change-connector/made"
                    changed = await client.post(where, data={**given, "s.topic": "u", "more": ""})
                    assert changed.url.path == "/connectors/made"
                    assert "<code>u</code>" in changed.text
                    assert "linger" not in changed.text
                    bad = await client.post(where, data={**given, "s.tasks.max": "x"})
                    assert (bad.status_code, "s-tasks.max-errors" in bad.text) == (400, True)
                    odd = await client.get(f"/change-connector/{QUOTED}")
                    assert (odd.status_code, str(tmp_path) in odd.text) == (200, True)
                    gone = await client.get("/change-connector/none")
                    assert gone.status_code == 404
                    unknown = await client.get("/new-connector?class=NoSuch")
                    assert (unknown.status_code, "NoSuch" in unknown.text) == (404, True)
                async with browser(broker.bootstrap_servers, Access(), connect=url) as client:
                    refused = await client.post("/new-connector", data={**given, "name": "second"})
                    assert refused.status_code == 403
                    assert "second" not in (await client.get("/connectors")).text

    asyncio.run(run())
    told = "\n".join(lines)
    assert "settings=" in told
    assert str(tmp_path) not in told
    assert "linger" not in told
