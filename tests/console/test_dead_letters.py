"""Dead letters on the pages: what went wrong, and their replay after a preview, counted."""

from __future__ import annotations

import asyncio
from html import unescape
from pathlib import Path

import httpx2
import pytest

from moldau.client import Consumer, Producer
from moldau.console.access.policy_file import read_policy
from moldau.console.access.visitor import Access
from moldau.console.pages.dead_letters import Choice
from moldau.console.pages.rendering import BadForm
from moldau.logging import Loggers
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.cells import Cells
from tests.console.dead import BROKEN, HEADERS, NAME, PAGE, QUEUE, TOPIC, broken_records, sink
from tests.console.forms import HIDDEN
from tests.console.shown import browser
from tests.console.worker import worker

pytestmark = pytest.mark.real

MASKED = Access(
    policy=read_policy(
        f"roles: {{admin: {{users: ann}}, operator: {{users: bob}}}}\n"
        f"masks: [{{topics: {QUEUE}, value: $}}]",
        "roles.yaml",
    ).policy,
)


def preview_of(page: httpx2.Response) -> dict[str, str]:
    """The fields of the form that replays what a preview shows."""
    assert page.status_code == 200, page.text
    return {unescape(name): unescape(value) for name, value in HIDDEN.findall(page.text)}


async def records(servers: str, topic: str, count: int) -> list[tuple[int, int, object]]:
    """Partition, time and the rest of each record."""
    found: list[tuple[int, int, object]] = []
    async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(await consumer.partitions(topic))
        async with asyncio.timeout(60):
            while len(found) < count:
                each = await consumer.getone()
                rest = (each.key, each.value, list(each.headers))
                found.append((each.partition, each.timestamp, rest))
    return found


def test_a_choice_is_the_same_after_its_fields_were_sent() -> None:
    given = {"pick:0:7": "1", "pick:0:4": "1", "pick:2:1": "1", "to": " x ", "times": "1"}
    chosen = Choice.picked(given)
    assert (chosen.to, chosen.keeps_times) == ("x", True)
    assert chosen.ranges == {0: (4, 8), 2: (1, 2)}
    assert [chosen.has(*each) for each in ((0, 4), (0, 5), (0, 7), (2, 1), (1, 4))] == [
        True, False, True, True, False,
    ]  # fmt: skip
    assert Choice.picked({**chosen.fields(), "to": "x", "times": "1"}) == chosen
    ranged = Choice.ranged({"range:1": "5-9"})
    assert Choice.ranged(ranged.fields()) == ranged
    assert [ranged.has(1, at) for at in (4, 5, 8, 9)] == [False, True, True, False]
    for make in (Choice.picked, Choice.ranged):
        with pytest.raises(BadForm):
            make({"pick:x:1": "1", "range:": "1-2", "other": ""})


def test_a_choice_of_more_than_a_replay_has_is_refused_before_anything_is_read() -> None:
    many = {f"pick:{at}:7": "1" for at in range(20_001)}
    for wide in ({"pick:0:0": "1", "pick:0:20000": "1"}, many):
        with pytest.raises(BadForm, match="too far apart"):
            Choice.picked(wide)
    with pytest.raises(BadForm, match="tick its box"):
        Choice.picked({"pick:0:" + "9" * 5000: "1"})
    for wide in ({"range:0": "0-10001"}, {"range:0": "0-9000", "range:1": "5-1006"}):
        with pytest.raises(BadForm, match="at most"):
            Choice.ranged(wide)
    assert Choice.ranged({"range:0": "0-9000", "range:1": "5-1005"}).ranges == {
        0: (0, 9000), 1: (5, 1005),
    }  # fmt: skip


async def looks(client: httpx2.AsyncClient) -> None:
    connector = (await client.get(f"/connectors/{NAME}")).text
    assert f'href="{PAGE}"' in connector
    assert f"/topics/{TOPIC}/messages" in connector
    page = (await client.get(PAGE)).text
    assert len([row for row in Cells(page).rows if len(row) == 6]) == len(BROKEN)
    for text in ("VALUE_CONVERTER".lower().replace("_", " "), f"{TOPIC} 1: 1", "JsonConverter"):
        assert text in page, text


async def replays(client: httpx2.AsyncClient, other: httpx2.AsyncClient, servers: str) -> None:
    """One console gets the form twice at the same time, and a second console once."""
    before = await records(servers, TOPIC, len(BROKEN) + 1)
    preview = await client.post(f"{PAGE}/plan", data={"which": "all", "times": "1"})
    assert Cells(preview.text).row(TOPIC) == [TOPIC, str(len(BROKEN))]
    assert await records(servers, TOPIC, len(before)) == before, "a preview sends nothing"
    fields = preview_of(preview)
    answers = await asyncio.gather(
        *(each.post(f"{PAGE}/replay", data=fields) for each in (client, other, client))
    )
    done = [f"Replayed {len(BROKEN)} records" in each.text for each in answers]
    assert sum(done) == 1, [each.text for each in answers]
    assert sorted(each.status_code for each in answers) == [200, 400, 400]
    assert not done[2], "the form that came twice"
    after = await records(servers, TOPIC, len(before) + len(BROKEN))
    bad = sorted(each for each in before if each[2] != (b"k", b"{}", []))
    assert sorted(after) == sorted([*before, *bad]), "place, time, key, value and headers are kept"
    again = await client.post(f"{PAGE}/replay", data=fields)
    assert (again.status_code, "replayed" in again.text) == (400, True)


async def replays_one_elsewhere(client: httpx2.AsyncClient, servers: str) -> None:
    picked = {"which": "chosen", "to": "repaired", "pick:0:0": "1"}
    preview = await client.post(f"{PAGE}/plan", data=picked)
    assert Cells(preview.text).row("repaired") == ["repaired", "1"]
    done = await client.post(f"{PAGE}/replay", data=preview_of(preview))
    assert "Replayed 1 record" in done.text
    ((_, _, rest),) = await records(servers, "repaired", 1)
    assert rest in [(b"k", value, HEADERS) for value in BROKEN]
    for to, status, text in (
        (QUEUE, 400, "the dead letter topic itself"),
        ("nowhere", 404, "nowhere"),
    ):
        refused = await client.post(f"{PAGE}/plan", data={**picked, "to": to})
        assert (refused.status_code, text in refused.text) == (status, True), to
    none = await client.post(f"{PAGE}/plan", data={"which": "chosen"})
    assert (none.status_code, "tick its box" in none.text) == (400, True)


async def is_not_shown_what_is_masked(client: httpx2.AsyncClient, servers: str) -> None:
    """An operator copies no record to a topic where less of it is masked."""
    picked = {"which": "chosen", "pick:0:0": "1"}
    for to, status in (("", 200), (TOPIC, 200), ("repaired", 403)):
        preview = await client.post(f"{PAGE}/plan", data={**picked, "to": to}, auth=("bob", "-"))
        assert preview.status_code == status, to
    assert "does not mask all" in preview.text
    admin = await client.post(f"{PAGE}/plan", data={**picked, "to": "repaired"}, auth=("ann", "-"))
    assert admin.status_code == 200
    async with Producer(bootstrap_servers=servers) as producer:
        sent = await producer.send_and_wait(QUEUE, b"from anywhere")
    lost = {"which": "chosen", f"pick:0:{sent.offset}": "1"}
    for user, status in (("bob", 403), ("ann", 200)):
        preview = await client.post(f"{PAGE}/plan", data=lost, auth=(user, "-"))
        assert preview.status_code == status, "the record says nothing of a topic"


def test_dead_letters_are_seen_and_replayed(tmp_path: Path) -> None:
    lines: list[str] = []

    async def run() -> None:
        async with EmbeddedBroker() as broker, RealRuntime("worker") as runtime:
            servers = broker.bootstrap_servers
            audit = Loggers(runtime.clock, lines.append).get("audit")
            admin = Access(True, audit=audit)
            async with worker(runtime, broker, tmp_path) as url:
                await broken_records(servers)
                await sink(url, servers, tmp_path)
                async with browser(servers, Access(), connect=url) as client:
                    await looks(client)
                    assert (await client.post(f"{PAGE}/replay", data={})).status_code == 403
                    preview = await client.post(f"{PAGE}/plan", data={"which": "all"})
                    assert "read-only" in preview.text
                async with browser(servers, admin, connect=url) as client:
                    async with browser(servers, admin, connect=url) as other:
                        await replays(client, other, servers)
                    await replays_one_elsewhere(client, servers)
                    async with browser(servers, MASKED, connect=url) as other:
                        await is_not_shown_what_is_masked(other, servers)
                    missing = await client.get("/dead-letters/lines%2Fof%20a%20file")
                    assert (missing.status_code, "has no dead letter topic" in missing.text) == (
                        400, True,
                    )  # fmt: skip

    asyncio.run(run())
    made = [line for line in lines if "change made" in line]
    assert ["replayed=2" in line for line in made] == [True, False]
    assert "replayed=1" in made[1]
