"""A page of `/metrics`, parsed strictly, and the application that makes it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import cast

import httpx2
from starlette.applications import Starlette

from moldau.broker.exposition.application import make_application
from moldau.broker.exposition.node import ObservedBroker
from moldau.broker.main.embedded import EmbeddedNode
from moldau.broker.server import Broker
from moldau.runtime.real import RealClock
from moldau.testing import EmbeddedBroker

LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)')
Labels = frozenset[tuple[str, str]]
_PARTS = ("_bucket", "_sum", "_count")


class Scraped:
    """The series of one page. Making one fails if the page breaks a rule of the format."""

    def __init__(self, text: str) -> None:
        self.kinds: dict[str, str] = {}
        self.values: dict[str, dict[Labels, float]] = {}
        helped: set[str] = set()
        current = ""
        assert text.endswith("\n")
        for line in text.splitlines():
            if line.startswith("# HELP "):
                name = line.split()[2]
                assert name not in helped, f"{name} stands in two places"
                assert line.split(maxsplit=3)[3].strip()
                helped.add(name)
            elif line.startswith("# TYPE "):
                _, _, current, kind = line.split()
                assert current in helped
                self.kinds[current] = kind
            else:
                self._add(line, current)

    def _add(self, line: str, current: str) -> None:
        match = LINE.fullmatch(line)
        assert match, line
        name, labels, value = match[1], match[2] or "", float(match[3])
        family = name
        if self.kinds[current] == "histogram":
            family = next(name.removesuffix(each) for each in _PARTS if name.endswith(each))
        assert family == current, f"{name} stands under {current}"
        pairs = LABEL.findall(labels)
        assert sum(len(f'{key}="{text}"') for key, text in pairs) + max(0, len(pairs) - 1) == len(
            labels
        ), line
        series = self.values.setdefault(name, {})
        key = frozenset(pairs)
        assert key not in series, line
        series[key] = value

    def value(self, name: str, **labels: str) -> float:
        """The value of one series."""
        return self.values[name][frozenset(labels.items())]

    def labelled(self, name: str, label: str) -> Mapping[str, float]:
        """The values of a name by one of its labels."""
        return {dict(labels)[label]: value for labels, value in self.values[name].items()}


def broker_of(embedded: EmbeddedBroker) -> Broker:
    """The broker inside."""
    return cast(EmbeddedNode, embedded._broker()).broker


def application_of(embedded: EmbeddedBroker) -> Starlette:
    """The application that serves the metrics of the broker inside."""
    node = ObservedBroker(broker_of(embedded))
    return make_application(RealClock(), turn, lambda: node)


async def turn() -> None:
    """Lets the event loop run."""
    await asyncio.sleep(0)


async def get(application: Starlette, path: str) -> httpx2.Response:
    """The answer to a request."""
    transport = httpx2.ASGITransport(application)
    async with httpx2.AsyncClient(transport=transport, base_url="http://node") as client:
        return await client.get(path)


async def scrape(application: Starlette) -> Scraped:
    """The page of now."""
    answer = await get(application, "/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return Scraped(answer.text)
