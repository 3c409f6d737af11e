"""A search of a whole topic by the console, and the other pages meanwhile.

Broker and console are processes, as a user starts them. One order among millions is looked for by
expressions; the console's CPU counts as well as the clock, since broker and search share the cores.
Pages are asked for twice a second, before the search and during it.

`BENCH_SCALE=0.3` searches three millions in place of ten.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Final

import httpx2

from bench.console import Running, console
from bench.peer_brokers import HOST, MoldauBroker, cpu_seconds
from moldau.client import Admin, NewTopic, Producer

RECORDS: Final = int(10_000_000 * float(os.environ.get("BENCH_SCALE", "1")))
PARTITIONS: Final = 4
ONE: Final = RECORDS // 3
VALUE_BYTES: Final = 200
BATCH: Final = 10_000
GOAL: Final = 300_000
MEMORY_GOAL_MB: Final = 100
EVERY_S: Final = 0.5
LOOKS: Final = 20
WHERES: Final = ('value.total > 9000 and headers.country == "NL"', "value.total > 9000")
PAGES: Final = ("/", "/topics", "/topics/orders", "/groups")
_PROGRESS: Final = re.compile(r'hx-get="(/topics/orders/search/[^"]+)"')
_SCANNED: Final = re.compile(r"Looked at ([\d,]+) records")
_RESIDENT: Final = re.compile(r"VmRSS:\s+(\d+) kB")


@dataclass(frozen=True, slots=True)
class Found:
    """One search: what it read, what it cost, and how long pages took meanwhile."""

    scanned: int
    seconds: float
    cpu_s: float
    grown_mb: float
    pages_ms: list[float]


async def fill(servers: str) -> None:
    """Send the orders: one of them has a total above 9,000, and all but that come from Germany."""
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(NewTopic("orders", PARTITIONS, 1))
    async with Producer(bootstrap_servers=servers, linger_ms=20, batch_size=1 << 18) as producer:
        for begin in range(0, RECORDS, BATCH):
            chosen = range(begin, min(begin + BATCH, RECORDS))
            countries = [b"NL" if each == ONE else b"DE" for each in chosen]
            await producer.send_many(
                "orders",
                [_order(each) for each in chosen],
                headers=[[("country", each)] for each in countries],
                partition=begin // BATCH % PARTITIONS,
            )
        await producer.flush()


def _order(number: int) -> bytes:
    total = 9_500 if number == ONE else number % 9_000
    begin = f'{{"id": {number}, "total": {total}, "note": "'
    return f'{begin:x<{VALUE_BYTES - 2}}"}}'.encode()


def _resident_mb(pid: int) -> float:
    found = _RESIDENT.search(Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def _look_ms(client: httpx2.Client, path: str) -> float:
    began = time.perf_counter()
    client.get(path).raise_for_status()
    return (time.perf_counter() - began) * 1000


def search(at: Running, client: httpx2.Client, where: str) -> Found:
    """Search to the end, and look at pages meanwhile."""
    before_mb, before_s = _resident_mb(at.pid), cpu_seconds(at.pid)
    most_mb, pages = before_mb, list[float]()
    began = time.perf_counter()
    text = client.get("/topics/orders/messages", params={"where": where}).text
    while (more := _PROGRESS.search(text)) is not None:
        time.sleep(EVERY_S)
        pages.append(_look_ms(client, PAGES[len(pages) % len(PAGES)]))
        most_mb = max(most_mb, _resident_mb(at.pid))
        answer = client.get(unescape(more[1]), headers={"HX-Request": "true"})
        text = answer.raise_for_status().text
    seconds = time.perf_counter() - began
    scanned = _SCANNED.search(text)
    assert scanned is not None, text
    cpu_s = cpu_seconds(at.pid) - before_s
    return Found(int(scanned[1].replace(",", "")), seconds, cpu_s, most_mb - before_mb, pages)


def _row(where: str, found: Found) -> str:
    pages = sorted(found.pages_ms)
    assert pages, "the search was over at once: there are too few records"
    median, longest = pages[len(pages) // 2], pages[-1]
    return (
        f"| `{where}` | {found.scanned / found.seconds:,.0f} | {found.scanned / found.cpu_s:,.0f} "
        f"| {found.grown_mb:.0f} | {median:.0f}, {longest:.0f} |"
    )


def page(machine: str, command: str) -> str:
    """Return the committed page."""
    with MoldauBroker.started() as broker:
        began = time.perf_counter()
        asyncio.run(fill(f"{HOST}:{broker.port}"))
        made_s = time.perf_counter() - began
        with (
            console(broker) as at,
            httpx2.Client(base_url=at.url, trust_env=False, timeout=120) as client,
        ):
            client.get("/topics/orders/messages").raise_for_status()
            still = sorted(_look_ms(client, PAGES[each % len(PAGES)]) for each in range(LOOKS))
            found = {where: search(at, client, where) for where in WHERES}
    load = os.getloadavg()[1]
    scale = f"BENCH_SCALE={RECORDS / 10_000_000:g} " if RECORDS != 10_000_000 else ""
    lines = [
        "# A search of a whole topic by the console",
        "",
        f"- {machine}\n- `{scale}{command}`",
        "",
        f"{RECORDS:,} orders of {VALUE_BYTES} bytes in {PARTITIONS} partitions, one of them Dutch, "
        f"sent in {made_s:.0f} s. Console, broker and this program share the cores with "
        f"{load:.0f} other tasks (the load of the last five minutes), so records a second of CPU "
        "say more than those of the clock. Pages are asked for while it searches; alone they take "
        f"{still[len(still) // 2]:.0f} ms (median) and {still[-1]:.0f} (longest).",
        "",
        f"| filter | records a second | of CPU of the console (goal: {GOAL:,}) "
        f"| MB more (goal: {MEMORY_GOAL_MB}) | pages, ms: median, longest |",
        "|-|-|-|-|-|",
        *(_row(where, each) for where, each in found.items()),
        "",
    ]
    return "\n".join(lines)
