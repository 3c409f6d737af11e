"""Changes by the pages: what they delete, what a reader may do, and what the audit log says."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from moldau.client import Admin, Consumer, NewTopic, Producer
from moldau.client.admin.share_groups import ShareGroupAdmin
from moldau.console.access.visitor import Access
from moldau.console.server import served
from moldau.link.http.protection import HttpProtection
from moldau.logging import Loggers
from moldau.runtime.real import RealClock, RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.change_forms import FORMS, RECORD
from tests.console.shown import browser

pytestmark = pytest.mark.real


async def used(servers: str) -> None:
    """A topic with three messages, a group that has read one, and a share group."""
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(NewTopic("orders", 1))
        async with Producer(bootstrap_servers=servers) as producer:
            for _ in range(3):
                await producer.send_and_wait("orders", b"{}")
        async with Consumer(
            bootstrap_servers=servers, group_id="billing", enable_auto_commit=False
        ) as consumer:
            consumer.assign([("orders", 0)])
            await consumer.commit({("orders", 0): 1})
        await ShareGroupAdmin(admin).alter_offsets("mailer", {("orders", 0): 2})


def test_what_is_deleted_is_typed_first() -> None:
    async def run() -> None:
        async with EmbeddedBroker() as broker:
            await used(broker.bootstrap_servers)
            async with browser(broker.bootstrap_servers) as client:
                for path, name in (("/groups/billing", "billing"), ("/topics/orders", "orders")):
                    assert "Type its name" in (await client.get(path)).text
                    wrong = await client.post(f"{path}/delete", data={"name": "other"})
                    assert (wrong.status_code, f"to delete it: {name}" in wrong.text) == (400, True)
                    assert (await client.get(path)).status_code == 200
                    listed = await client.post(f"{path}/delete", data={"name": name})
                    assert listed.status_code == 200
                    assert name not in listed.text
                    gone = await client.get(path)
                    assert (gone.status_code, "It is not there" in gone.text) == (404, True)

    asyncio.run(run())


def test_a_topic_gets_more_partitions_and_never_fewer() -> None:
    async def run() -> None:
        async with EmbeddedBroker() as broker:
            await used(broker.bootstrap_servers)
            async with browser(broker.bootstrap_servers) as client:
                page = await client.post("/topics/orders/partitions", data={"count": "3"})
                assert page.url.path == "/topics/orders"
                assert "1 to 3 of 3" in page.text
                fewer = await client.post("/topics/orders/partitions", data={"count": "2"})
                assert (fewer.status_code, "The cluster refuses" in fewer.text) == (400, True)
                bad = await client.post("/topics/orders/partitions", data={"count": "many"})
                assert (bad.status_code, "give the whole number" in bad.text) == (400, True)

    asyncio.run(run())


def test_a_share_group_with_its_lag_is_moved_after_a_preview() -> None:
    async def run() -> None:
        async with EmbeddedBroker() as broker:
            await used(broker.bootstrap_servers)
            async with browser(broker.bootstrap_servers) as client:
                assert "mailer" in (await client.get("/groups")).text
                page = await client.get("/groups/mailer")
                assert "<b>share</b> protocol" in page.text
                plan = await client.post(
                    "/groups/mailer/plan", data={"way": "beginning", "amount": ""}
                )
                assert "reads 2 again" in plan.text
                await client.post("/groups/mailer/offsets", data={"to:orders:0": "0"})
                async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                    (stands,) = (await ShareGroupAdmin(admin).offsets("mailer")).values()
                assert stands.start == 0

    asyncio.run(run())


def test_a_reader_sees_all_and_changes_nothing() -> None:
    async def run() -> None:
        async with EmbeddedBroker() as broker:
            await used(broker.bootstrap_servers)
            async with browser(broker.bootstrap_servers, Access()) as client:
                for path, form in FORMS.items():
                    refused = await client.post(path, data=form)
                    assert refused.status_code == 403, path
                    assert "--admin" in refused.text, path
                plan = await client.post("/groups/billing/plan", data={"way": "end", "amount": ""})
                assert "skips 2" in plan.text
                assert "Change these offsets" not in plan.text
                for path in ("/topics", "/topics/orders", "/topics/orders/settings"):
                    page = (await client.get(path)).text
                    assert 'method="post"' not in page, path
                    assert "read-only" in page, path
                async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                    assert [each.name for each in await admin.list_topics()] == ["orders"]
                    assert (await admin.group_progress("billing")).lag == 2

    asyncio.run(run())


def test_every_change_gives_a_line_with_its_user_and_without_the_record() -> None:
    async def run() -> None:
        lines: list[str] = []
        audit = Loggers(RealClock(), lines.append).get("moldau.console.audit")
        async with EmbeddedBroker() as broker, RealRuntime("console") as runtime:
            servers = broker.bootstrap_servers
            await used(servers)
            by = HttpProtection(users={"alice": "rabbit"})
            settings = {"bootstrap.servers": servers}
            place = ("127.0.0.1", 0)
            async with (
                served(runtime, settings, place, by, Access(True, audit=audit)) as address,
                httpx2.AsyncClient(base_url=address, auth=("alice", "rabbit")) as client,
            ):
                for path, form in FORMS.items():
                    assert (await client.post(path, data=form)).status_code in (303, 404), path
                await client.post("/topics", data={"name": "x"}, headers={"Origin": "http://evil"})
                await client.get("/topics")
                wrong = await client.post("/topics", data={"name": "y"}, auth=("alice", "x"))
                assert wrong.status_code == 401
        assert len(lines) == len(FORMS) + 1
        for line, path in zip(lines, FORMS, strict=False):
            assert "user=alice" in line
            assert f"path={path}" in line
        assert "retention.ms" in lines[1]
        assert RECORD not in "".join(lines)
        assert "rabbit" not in "".join(lines)
        assert "status=403" in lines[-1]

    asyncio.run(run())
