"""The console beside a large cluster: the time of each page, the first paint, the broker's cost.

The broker, with its metrics and a registry, a Streams app and the console are processes, as a user
starts them. The topics and groups are made first, which takes minutes at full size. The pages are
asked for one after the other while the console reads its lists again and again; each is also the
first request of a new console. The broker's latency is that of small produces at a steady pace,
without a console and while its pages are looked at.

`BENCH_SCALE=0.2` makes the cluster a fifth as large.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final

import httpx2

from bench.broker_load import create_topic, p50_and_p99, paced_latencies
from bench.peer_brokers import HOST, MoldauBroker, cpu_seconds, wait_for_port
from moldau.client import Admin, NewTopic
from moldau.client.serdes.registry.client import SchemaRegistry
from moldau.errors.codes import KafkaError
from moldau.runtime.node_processes import free_ports
from moldau.values.schema import AVRO, Schema

SCALE: Final = float(os.environ.get("BENCH_SCALE", "1"))
TOPICS: Final = int(10_000 * SCALE)
PARTITIONS: Final = 4
GROUPS: Final = int(2_000 * SCALE)
BATCH: Final = 100
ROUNDS: Final = 20
PER_SECOND: Final = 200
RECORDS: Final = 4_000
METRICS: Final = "moldau.metrics.listener"
REGISTRY: Final = "moldau.registry.listener"
MOLDAU: Final = str(Path(sys.executable).with_name("moldau"))
WARM_S: Final = 3.0
"""From the start of a console to its first request: an address takes as long to type."""
GOAL_MS: Final = 300
PAINT_GOAL_MS: Final = 1_000
TYPED: Final = "orders"
"""A topic whose values have a schema: its page of messages has a form of it."""
_DECIMAL: Final = {"type": "bytes", "logicalType": "decimal", "precision": 9}
_TIME: Final = {"type": "long", "logicalType": "timestamp-millis"}
_STATE: Final = {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}
_FIELDS: Final = {
    "id": "long",
    "total": _DECIMAL,
    "at": _TIME,
    "state": _STATE,
    "lines": {"type": "array", "items": "string"},
}
SCHEMA: Final = Schema(
    json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [{"name": name, "type": kind} for name, kind in _FIELDS.items()],
        }
    ),
    AVRO,
)
PAGES: Final = (
    "/",
    "/topics",
    f"/topics?page={TOPICS // 100}",
    "/topics?q=topic-0012",
    "/topics/topic-00077",
    "/topics/topic-00077/messages",
    "/topics/topic-00077/settings",
    "/topics/topic-00077/readers",
    f"/topics/{TYPED}/messages",
    "/groups",
    "/groups?q=group-001",
    "/groups/group-00077",
    "/brokers/1",
    "/risks",
    "/charts/cluster",
    "/charts/topic/topic-00077",
    "/charts/group/group-00077",
    "/transactions",
    "/rights",
    "/schemas",
    f"/schemas/{TYPED}-value",
    "/streams",
    "/streams/counts",
    "/streams/counts/stores/counts",
    "/healthz",
)
PAINTS: Final = ("/", "/topics", "/groups", "/brokers/1", f"/topics/{TYPED}/messages")
CHROMIUM: Final = ("chromium", "chromium-browser", "google-chrome")
PAINTED: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of one request: on the clock, and of the processors in console and broker."""

    wall: float
    console: float
    broker: float


@dataclass(frozen=True, slots=True)
class Times:
    """What one page costs: as the first request of a console, and in those after it."""

    first: Cost
    later: list[Cost]

    def median(self, part: Callable[[Cost], float]) -> float:
        return sorted(map(part, self.later))[len(self.later) // 2]

    @property
    def longest(self) -> float:
        return max(each.wall for each in (self.first, *self.later))


@dataclass(frozen=True, slots=True)
class Beside:
    """The addresses of what the console shows beside the cluster: a registry and a Streams app."""

    registry: str
    app: str


@dataclass(frozen=True, slots=True)
class Running:
    """A `moldau console` process, and its address."""

    url: str
    pid: int


async def fill(servers: str) -> None:
    """Make the topics, and the groups with an offset in each partition of a topic."""
    names = [f"topic-{number:05}" for number in range(TOPICS)]
    async with Admin(bootstrap_servers=servers) as admin:
        for begin in range(0, TOPICS, BATCH):
            wanted = [NewTopic(name, PARTITIONS, 1) for name in names[begin : begin + BATCH]]
            for made in (await admin.create_topics(wanted)).values():
                if isinstance(made, KafkaError):
                    raise made
        for begin in range(0, GROUPS, BATCH):
            chosen = range(begin, min(begin + BATCH, GROUPS))
            await asyncio.gather(*(_commit(admin, number, names) for number in chosen))


async def _commit(admin: Admin, number: int, names: list[str]) -> None:
    topic = names[number * 7 % TOPICS]
    offsets = {(topic, partition): 0 for partition in range(PARTITIONS)}
    await admin.alter_group_offsets(f"group-{number:05}", offsets)


@contextmanager
def beside(broker: MoldauBroker) -> Iterator[Beside]:
    """Make a topic with a schema, and start a Streams app that counts its records."""
    asyncio.run(_typed(broker.properties[REGISTRY]))
    create_topic(broker, TYPED)
    create_topic(broker, "counted")
    listen = f"{HOST}:{free_ports(1)[0]}"
    words = ("streams", "run", "bench.stream_apps:count", "--listen", listen)
    where = ("--bootstrap", f"{HOST}:{broker.port}", "--state", str(broker.folder / "state"))
    process = subprocess.Popen(  # noqa: S603
        [MOLDAU, *words, *where, "--log-level", "warn"],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "BENCH_IN": TYPED, "BENCH_OUT": "counted"},
    )
    try:
        wait_for_port(int(listen.rpartition(":")[2]), process)
        yield Beside(f"http://{broker.properties[REGISTRY]}", f"http://{listen}")
    finally:
        process.terminate()
        process.wait(60)


async def _typed(registry: str) -> None:
    async with SchemaRegistry(f"http://{registry}") as client:
        await client.register(f"{TYPED}-value", SCHEMA)


@contextmanager
def console(broker: MoldauBroker, shown: Beside | None = None) -> Iterator[Running]:
    """Start a `moldau console`."""
    port = free_ports(1)[0]
    words = ["console", "-b", f"{HOST}:{broker.port}", "--listen", f"{HOST}:{port}"]
    if shown is not None:
        words += ["--admin", "--registry", shown.registry, "--streams", f"counts={shown.app}"]
    process = subprocess.Popen([MOLDAU, *words], stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        wait_for_port(port, process)
        time.sleep(WARM_S)
        yield Running(f"http://{HOST}:{port}", process.pid)
    finally:
        process.terminate()
        process.wait(30)


def _asked(client: httpx2.Client, path: str, *pids: int) -> Cost:
    """Return what a request costs, by the processes of console and broker."""
    used, began = [cpu_seconds(pid) for pid in pids], time.perf_counter()
    client.get(path).raise_for_status()
    wall = time.perf_counter() - began
    parts = [cpu_seconds(pid) - before for pid, before in zip(pids, used, strict=True)]
    return Cost(*(each * 1000 for each in (wall, *parts)))


def _client(url: str) -> httpx2.Client:
    return httpx2.Client(base_url=url, trust_env=False, timeout=120)


def page_times(broker: MoldauBroker, shown: Beside) -> dict[str, Times]:
    """Ask for each page first, and many times."""
    first = {}
    for path in PAGES:
        with console(broker, shown) as at, _client(at.url) as client:
            first[path] = _asked(client, path, at.pid, broker.pid)
    with console(broker, shown) as at, _client(at.url) as client:
        later: dict[str, list[Cost]] = {path: [] for path in PAGES}
        for _ in range(ROUNDS):
            for path in PAGES:
                later[path].append(_asked(client, path, at.pid, broker.pid))
    return {path: Times(first[path], later[path]) for path in PAGES}


def first_paint_ms(broker: MoldauBroker, shown: Beside, path: str) -> float | None:
    """Return when a browser shows the first content of a new console; None without a browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        return None
    with console(broker, shown) as at, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        # The console's pages allow no `eval`, by which a browser's test asks again and again.
        page = browser.new_page(bypass_csp=True)
        page.goto(f"{at.url}{path}", wait_until="load")
        page.wait_for_function(f"({PAINTED}) !== null")
        painted: float = page.evaluate(PAINTED)
        browser.close()
        return painted


def p99_ms(broker: MoldauBroker) -> float:
    """Return the 99th percentile of the broker's answers to small produces."""
    return p50_and_p99(paced_latencies(broker, "pace", PER_SECOND, RECORDS))[1] * 1000


def p99_while_looked_at(broker: MoldauBroker, shown: Beside) -> float:
    """Return the same while the pages are looked at, one every half second."""
    left = threading.Event()

    def look(url: str) -> None:
        with _client(url) as client:
            number = 0
            while not left.wait(0.5):
                client.get(PAGES[number % len(PAGES)]).raise_for_status()
                number += 1

    with console(broker, shown) as at:
        visitor = threading.Thread(target=look, args=(at.url,))
        visitor.start()
        try:
            return p99_ms(broker)
        finally:
            left.set()
            visitor.join()


def _row(path: str, each: Times) -> str:
    wall, own, brokers = (attrgetter(each) for each in ("wall", "console", "broker"))
    first, median = each.first, each.median
    return (
        f"| `{path}` | {first.wall:.0f} | {median(wall):.0f} | {each.longest:.0f} "
        f"| {first.console:.0f}, {median(own):.0f} | {first.broker:.0f}, {median(brokers):.0f} |"
    )


def page(machine: str, command: str) -> str:
    """Return the committed page."""
    metrics, registry = (f"{HOST}:{port}" for port in free_ports(2))
    with MoldauBroker.started({METRICS: metrics, REGISTRY: registry}) as broker:
        began = time.perf_counter()
        asyncio.run(fill(f"{HOST}:{broker.port}"))
        took_s = time.perf_counter() - began
        with beside(broker) as shown:
            return measured(broker, shown, took_s, machine, command)


def measured(broker: MoldauBroker, shown: Beside, made_s: float, machine: str, command: str) -> str:
    """Return the page of a broker that has the topics and groups."""
    create_topic(broker, "pace")
    times = page_times(broker, shown)
    paints = {path: first_paint_ms(broker, shown, path) for path in PAINTS}
    alone, looked_at = p99_ms(broker), p99_while_looked_at(broker, shown)
    scale = "" if SCALE == 1 else f"BENCH_SCALE={SCALE:g} "
    lines = [
        "# The console beside a large cluster",
        "",
        f"- {machine}\n- `{scale}{command}`",
        "",
        f"{TOPICS:,} topics, {TOPICS * PARTITIONS:,} partitions, {GROUPS:,} groups on one broker, "
        f"made in {made_s:.0f} s. Milliseconds, as a client sees them, of {ROUNDS} requests each; "
        f"`first` is the first request of a console, {WARM_S:g} s after it opened its port. CPU "
        "is all that the process used meanwhile, also to read its lists.",
        "",
        f"| page | first | median | longest (goal: {GOAL_MS}) "
        "| CPU of the console: first, median | of the broker |",
        "|-|-|-|-|-|-|",
        *map(_row, times, times.values()),
        "",
        f"| first paint of a new console, in Chromium | ms (goal: {PAINT_GOAL_MS:,}) |",
        "|-|-|",
        *(
            f"| `{path}` | {'no browser' if each is None else f'{each:.0f}'} |"
            for path, each in paints.items()
        ),
        "",
        f"| 99th percentile of produces, {PER_SECOND} a second | ms |",
        "|-|-|",
        f"| without a console | {alone:.1f} |",
        f"| while its pages are looked at, two a second | {looked_at:.1f} |",
        "",
    ]
    return "\n".join(lines)
