"""Several clusters in one console: addresses, rights and sessions are those of one of them."""

from __future__ import annotations

import asyncio
import io
import json
import re
from argparse import ArgumentParser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from moldau.cli.command import Context, UsageError
from moldau.cli.profiles import Profile, Profiles, save
from moldau.client import Admin
from moldau.console.access.oidc import Oidc, OidcClient
from moldau.console.access.roles import BY_CLAIM, Policy
from moldau.console.access.visitor import Access
from moldau.console.clusters import prefixed
from moldau.console.command import ConsoleCommand, _clusters, _shown
from moldau.console.connection import Connection
from moldau.console.server import ConsoleCluster, serving_all
from moldau.errors import ConfigError
from moldau.link.http.protection import HttpProtection
from moldau.logging import Loggers
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.login import PAGE
from tests.console.provider import CLIENT_ID, SECRET, provider
from tests.console.screen import opened
from tests.console.shots import LOOKS, without_findings
from tests.console.shown import use

ADDRESS = re.compile(r'\s(?:href|src|action|hx-get|hx-post|data-tail)="([^"]*)"')
PAGES = (
    "/",
    "/risks",
    "/topics",
    "/topics/orders",
    "/topics/orders/messages",
    "/topics/orders/readers",
    "/topics/orders/settings",
    "/groups",
    "/groups/billing",
    "/transactions",
    "/rights",
    "/brokers/1",
    "/streams",
)


def test_addresses_of_a_page_get_the_prefix_and_its_texts_do_not() -> None:
    page = (
        '<a href="/topics">/topics</a> <a href="//else"> <a href="/c/us/"> <a href="?page=2">'
        ' <img src="/static/icon.svg"> <form action="/topics"> &#34; href=&#34;/topics&#34;'
    )
    assert prefixed(page, "/c/eu") == (
        '<a href="/c/eu/topics">/topics</a> <a href="//else"> <a href="/c/us/"> <a href="?page=2">'
        ' <img src="/static/icon.svg"> <form action="/c/eu/topics"> &#34; href=&#34;/topics&#34;'
    )
    assert prefixed(page, "") == page


@asynccontextmanager
async def console(*, has_logins: bool = False) -> AsyncIterator[tuple[str, list[str], list[str]]]:
    """A console of the clusters `e u` and `us`; its address, their servers and the audit. The
    first may be changed, the second is read-only, unless logins say what may be."""
    lines: list[str] = []
    async with (
        EmbeddedBroker() as one,
        EmbeddedBroker() as other,
        RealRuntime("console") as runtime,
        provider(runtime) as at,
    ):
        await use(one.bootstrap_servers)
        loggers = Loggers(runtime.clock, lines.append, json=True)
        shown = {}
        for name, broker in (("e u", one), ("us", other)):
            access = Access(name == "e u", loggers.get("audit"), records_looks=True)
            oidc = None
            if has_logins:
                access = Access(audit=loggers.get("audit"), policy=Policy(BY_CLAIM))
                client = OidcClient(at.issuer, CLIENT_ID, SECRET)
                oidc = Oidc(client, runtime, loggers.get("logins"))
            settings = {"bootstrap.servers": broker.bootstrap_servers}
            shown[name] = ConsoleCluster(Connection(settings, runtime), access, oidc)
        by = HttpProtection()
        async with serving_all(runtime, shown, ("127.0.0.1", 0), by) as address:
            yield address, [one.bootstrap_servers, other.bootstrap_servers], lines


@pytest.mark.real
def test_every_address_keeps_the_cluster_and_rights_are_those_of_one() -> None:
    async def run() -> None:
        async with (
            console() as (address, servers, lines),
            httpx2.AsyncClient(base_url=address, trust_env=False, follow_redirects=True) as client,
        ):
            for path in PAGES:
                page = await client.get(f"/c/e%20u{path}")
                assert page.status_code == 200, path
                found = [each for each in ADDRESS.findall(page.text) if each.startswith("/")]
                assert all(each.startswith(("/c/", "/static/")) for each in found), (path, found)
                assert {"/c/e%20u/topics", "/c/us/"} <= set(found)
            assert (await client.get("/topics?q=ord")).url.raw_path == b"/c/e%20u/topics?q=ord"
            assert (await client.get("/c/us")).url.path == "/c/us/"
            assert (await client.get("/c/none/topics")).status_code == 404
            assert "orders" not in (await client.get("/c/us/topics")).text

            form = {"name": "made", "partitions": "1", "replicas": "1"}
            refused = await client.post("/c/us/topics", data=form)
            assert (refused.status_code, "read-only" in refused.text) == (403, True)
            made = await client.post("/c/e%20u/topics", data=form)
            assert (made.status_code, made.url.raw_path) == (200, b"/c/e%20u/topics/made")
            for server, is_there in zip(servers, (True, False), strict=True):
                async with Admin(bootstrap_servers=server) as admin:
                    names = [each.name for each in await admin.list_topics()]
                    assert ("made" in names) is is_there
            paths = [json.loads(each)["path"] for each in lines if "create a topic" in each]
            assert paths == ["/c/us/topics", "/c/e%20u/topics"]

    asyncio.run(run())


@pytest.mark.real
def test_a_session_is_of_one_cluster() -> None:
    async def run() -> None:
        async with (
            console(has_logins=True) as (address, _, _),
            httpx2.AsyncClient(base_url=address, trust_env=False, headers=PAGE) as client,
        ):
            sent = await client.get("/c/us/groups")
            assert sent.headers["location"] == "/c/us/login?back=%2Fgroups"
            asked = (await client.get(sent.headers["location"])).headers["location"]
            back = (await client.get(f"{asked}&user=bob")).headers["location"]
            assert back.startswith(f"{address}/c/us/login/done?")
            done = await client.get(back)
            assert (done.status_code, done.headers["location"]) == (303, "/c/us/groups")
            assert "operator" in (await client.get("/c/us/groups")).text
            other = await client.get("/c/e%20u/groups")
            assert other.headers["location"] == "/c/e%20u/login?back=%2Fgroups"
            left = await client.post("/c/us/logout", headers={"origin": address})
            assert left.status_code == 200
            assert (await client.get("/c/us/groups")).status_code == 303

    asyncio.run(run())


def given(folder: Path, *words: str, profile: str | None = None) -> dict[str, dict[str, str]]:
    """The settings of the clusters of a command line, in a home with two profiles."""
    profiles = {
        "eu": Profile({"bootstrap.servers": "eu:9092", "client.rack": "a"}, "http://eu:8081"),
        "us": Profile({"bootstrap.servers": "us:9092"}),
    }
    save(f"{folder}/moldau/profiles.json", Profiles("us", profiles))
    parser = ArgumentParser()
    ConsoleCommand().configure(parser)
    environment = {"XDG_CONFIG_HOME": str(folder)}
    context = Context(io.StringIO(), io.StringIO(), environment, dict, profile_name=profile)  # type: ignore[arg-type]
    clusters: dict[str, Any] = _clusters(parser.parse_args(words), context)
    return {name: _shown(*each) for name, each in clusters.items()}


def test_each_cluster_has_the_settings_of_its_profile(tmp_path: Path) -> None:
    found = given(tmp_path, "--clusters", "all", "--prometheus", "http://p:9090?job={cluster}")
    assert list(found) == ["eu", "us"]
    assert (found["eu"]["bootstrap.servers"], found["eu"]["client.rack"]) == ("eu:9092", "a")
    assert found["eu"]["schema.registry.url"] == "http://eu:8081"
    assert found["us"]["bootstrap.servers"] == "us:9092"
    assert "schema.registry.url" not in found["us"]
    assert found["us"]["prometheus.url"] == "http://p:9090?job=us"
    assert list(given(tmp_path, "--clusters", "us,eu")) == ["us", "eu"]


@pytest.mark.parametrize(
    ("words", "profile", "reason"),
    [
        (("-b", "localhost:9092"), None, "--bootstrap is of one cluster"),
        (("--registry", "http://r"), None, "--registry is of one cluster"),
        (("--streams", "a=http://a"), None, "--streams is of one cluster"),
        ((), "eu", "--profile is of one cluster"),
        (("--prometheus", "http://p"), None, "needs {cluster} in it"),
    ],
)
def test_what_is_of_one_cluster_is_refused_beside_several(
    tmp_path: Path, words: tuple[str, ...], profile: str | None, reason: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(reason)):
        given(tmp_path, "--clusters", "eu,us", *words, profile=profile)
    with pytest.raises(ConfigError, match="there is no profile ue"):
        given(tmp_path, "--clusters", "ue")


@pytest.mark.real
@pytest.mark.deep
@pytest.mark.parametrize("look", LOOKS)
def test_the_switch_leads_to_another_cluster_by_keyboard(look: str) -> None:
    async def run() -> None:
        async with console() as (address, _, _), opened() as browser:
            context = await browser.new_context(base_url=address, **LOOKS[look])
            page = await context.new_page()
            await page.goto("/topics")
            await page.wait_for_url("**/c/e%20u/topics")
            await page.locator(".clusters summary").press("Enter")
            await without_findings(page, f"clusters-{look}")
            await page.get_by_role("link", name="us", exact=True).press("Enter")
            await page.wait_for_url("**/c/us/")
            await page.get_by_role("link", name="Topics", exact=True).press("Enter")
            await page.wait_for_url("**/c/us/topics")
            await context.close()

    asyncio.run(run())
