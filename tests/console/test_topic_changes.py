"""Several topics at once, what reads a topic, and the page of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

import httpx2
import pytest

from moldau.client import Admin, NewTopic, Producer
from moldau.client.admin.progress import GroupProgress
from moldau.client.base.offsets import EARLIEST
from moldau.client.group.descriptions import ListedGroup
from moldau.console.access.visitor import Access
from moldau.console.picture import ClusterLists
from moldau.console.refresher import Refresher
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.testing import EmbeddedBroker
from tests.console.cells import Cells
from tests.console.forms import confirm
from tests.console.shown import browser, use

pytestmark = pytest.mark.real

Check = Callable[[httpx2.AsyncClient, Admin, str], Awaitable[None]]


def on_topics(check: Check, access: Access | None = None) -> None:
    """`orders` has five records, and a group that has read two; `keys` is compacted."""

    async def run() -> None:
        async with EmbeddedBroker() as broker:
            servers = broker.bootstrap_servers
            await use(servers)
            async with Admin(bootstrap_servers=servers) as admin:
                compact = {"cleanup.policy": "compact"}
                await admin.create_topics([NewTopic("keys", 1, configs=compact), NewTopic("b", 1)])
                async with browser(servers, access) as client:
                    await check(client, admin, servers)

    asyncio.run(run())


def test_what_came_after_the_preview_stays_when_a_topic_is_emptied() -> None:
    async def check(client: httpx2.AsyncClient, admin: Admin, servers: str) -> None:
        form = {"topic:orders": "1", "topic:b": "1", "topic:keys": "1", "way": "empty"}
        plan = await client.post("/change-topics/plan", data=form)
        assert "records of orders (5 records at most)" in plan.text
        assert "b stays as it is: it is empty" in plan.text
        assert "cleanup.policy is compact" in plan.text
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait("orders", b"late", partition=1)
        refused = await confirm(client, plan)
        assert "type the name to remove it: orders" in refused.text
        done = await confirm(client, plan, typed="orders")
        assert done.url.path == "/topics"
        begins = await admin.list_offsets({("orders", 1): EARLIEST})
        assert [getattr(each, "offset", each) for each in begins.values()] == [5]
        assert "late" in (await client.get("/topics/orders/messages")).text

    on_topics(check)


@pytest.mark.parametrize("way", ["delete", "empty", "set"])
def test_a_topic_that_was_made_anew_since_its_preview_stays_as_it_is(way: str) -> None:
    async def check(client: httpx2.AsyncClient, admin: Admin, servers: str) -> None:
        form = {"topic:orders": "1", "way": way, "setting": "retention.ms", "value": "1000"}
        plan = await client.post("/change-topics/plan", data=form)
        await admin.delete_topic("orders")
        await admin.create_topic(NewTopic("orders", 2))
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait("orders", b"new", partition=1)
        refused = await confirm(client, plan, typed="orders")
        assert refused.status_code == 400
        assert "changed 0 of 1 topic" in refused.text
        assert "made anew" in refused.text
        assert "new" in (await client.get("/topics/orders/messages")).text
        begins = await admin.list_offsets({("orders", 1): EARLIEST})
        assert [getattr(each, "offset", each) for each in begins.values()] == [0]
        assert 'value="1000"' not in (await client.get("/topics/orders/settings")).text
        again = await client.post("/change-topics/plan", data=form)
        assert (await confirm(client, again, typed="orders")).url.path == "/topics"

    on_topics(check)


def test_several_topics_are_set_and_deleted_as_their_previews_say() -> None:
    async def check(client: httpx2.AsyncClient, admin: Admin, servers: str) -> None:
        chosen = {"topic:orders": "1", "topic:b": "1"}
        change = {"way": "set", "setting": "retention.ms", "value": "1000"}
        plan = await client.post("/change-topics/plan", data=chosen | change)
        assert "orders: retention.ms = 1000" in plan.text
        assert (await confirm(client, plan)).url.path == "/topics"
        for name in ("orders", "b"):
            assert 'value="1000"' in (await client.get(f"/topics/{name}/settings")).text
        again = await client.post("/change-topics/plan", data=chosen | change)
        assert "it has that already" in again.text
        wrong = await client.post("/change-topics/plan", data=chosen | change | {"value": "x"})
        assert "orders stays as it is" in wrong.text
        assert "retention.ms" in wrong.text
        plan = await client.post("/change-topics/plan", data=chosen | {"way": "delete"})
        assert "topic of orders (with 5 records at most)" in plan.text
        assert (await confirm(client, plan, typed="2 topics")).url.path == "/topics"
        assert {each.name for each in await admin.list_topics()} & {"orders", "b"} == set()
        none = await client.post("/change-topics/plan", data={"way": "delete"})
        assert (none.status_code, "choose at least one topic" in none.text) == (400, True)

    on_topics(check)


def test_a_visitor_that_may_not_change_topics_chooses_none() -> None:
    async def check(client: httpx2.AsyncClient, admin: Admin, servers: str) -> None:
        assert "Choose orders" not in (await client.get("/topics")).text
        for path in ("plan", "delete", "empty", "set"):
            form = {"topic:orders": "1", "way": "delete", "typed": "orders"}
            assert (await client.post(f"/change-topics/{path}", data=form)).status_code == 403

    on_topics(check, Access())


def test_a_topic_shows_its_groups_and_its_rules() -> None:
    async def check(client: httpx2.AsyncClient, admin: Admin, servers: str) -> None:
        page = await client.get("/topics/orders/readers")
        assert Cells(page.text).row("billing")[1:] == ["Empty", "0", "1", "3"]
        assert "The cluster tells no rules" in page.text, "it has no authorizer"
        assert "No group has committed" in (await client.get("/topics/b/readers")).text

    on_topics(check)


def test_share_groups_and_groups_that_do_not_answer_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed, asked = Refresher.groups, Admin.groups_progress

    async def with_share(lists: Refresher) -> ClusterLists:
        found = await listed(lists)
        return replace(
            found, groups=[*found.groups, ListedGroup("fans", "share", "Stable", "share")]
        )

    async def progress(
        admin: Admin, groups: Iterable[str]
    ) -> dict[str, GroupProgress | KafkaError]:
        names = set(groups)
        assert names == {"billing", "fans"}
        found = await asked(admin, names - {"fans"})
        (like,) = (each for each in found.values() if isinstance(each, GroupProgress))
        group = replace(like.group, group_id="fans", type="share", state="Stable")
        return {
            "fans": replace(like, group=group),
            "billing": KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED),
        }

    async def check(client: httpx2.AsyncClient, admin: Admin, servers: str) -> None:
        page = await client.get("/topics/orders/readers")
        assert Cells(page.text).row("fans")[1:] == ["Stable (share group)", "0", "1", "3"]
        assert "GROUP_AUTHORIZATION_FAILED" in page.text
        assert 'href="/groups/billing"' in page.text
        other = await client.get("/topics/b/readers")
        assert "No group has committed" not in other.text, "billing may have"

    monkeypatch.setattr(Refresher, "groups", with_share)
    monkeypatch.setattr(Admin, "groups_progress", progress)
    on_topics(check)


def test_a_broker_has_a_page_with_its_directories_and_settings() -> None:
    async def check(client: httpx2.AsyncClient, admin: Admin, servers: str) -> None:
        (broker,) = (await admin.describe_cluster()).brokers
        page = await client.get(f"/brokers/{broker.node_id}")
        assert str(broker.address) in page.text
        assert Cells(page.text).row("orders")[1]
        assert "log.dirs" in page.text
        assert f'href="/brokers/{broker.node_id}"' in (await client.get("/")).text
        assert (await client.get("/brokers/99")).status_code == 404

    on_topics(check)
