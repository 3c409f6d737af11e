"""`/healthz` says whether to start the node again, `/readyz` whether to send it clients."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path

import pytest

from moldau.broker.exposition.application import make_application
from moldau.broker.exposition.health import Health
from moldau.broker.exposition.scrape import ScrapedNode
from moldau.runtime.real import RealClock
from moldau.testing import EmbeddedBroker
from tests.broker.exposition.scraped import Scraped, application_of, get, scrape, turn
from tests.broker.main.processes import broker_process, finished

STATES = {
    "starts": (None, 200, 503),
    "serves": (Health(is_alive=True, is_ready=True, text="running"), 200, 200),
    "is fenced": (Health(is_alive=True, is_ready=False, text="fenced"), 200, 503),
    "has failed": (Health(is_alive=False, is_ready=False, text="its disk failed"), 503, 503),
}


class Node:
    """A node in a given state."""

    def __init__(self, health: Health) -> None:
        self._health = health

    def health(self) -> Health:
        return self._health

    def observed(self) -> ScrapedNode:
        raise AssertionError("health needs no figures")


@pytest.mark.parametrize("state", STATES)
def test_the_answers_follow_the_state(state: str) -> None:
    health, alive, ready = STATES[state]
    node = None if health is None else Node(health)
    application = make_application(RealClock(), turn, lambda: node)

    async def run() -> None:
        assert (await get(application, "/healthz")).status_code == alive
        answer = await get(application, "/readyz")
        assert answer.status_code == ready
        assert answer.text == f"{'starting' if health is None else health.text}\n"

    asyncio.run(run())


def test_before_the_start_there_are_the_figures_of_the_process() -> None:
    page = asyncio.run(scrape(make_application(RealClock(), turn, lambda: None)))

    assert page.value("process_cpu_seconds_total") > 0
    assert "kafka_brokers" not in page.kinds


@pytest.mark.real
def test_a_started_broker_is_ready() -> None:
    async def run() -> None:
        async with EmbeddedBroker() as broker:
            answer = await get(application_of(broker), "/readyz")
            assert (answer.status_code, answer.text) == (200, "running\n")

    asyncio.run(run())


@pytest.mark.real
def test_a_broker_of_the_command_line_serves_its_metrics(tmp_path: Path) -> None:
    with broker_process(tmp_path, "--metrics", "127.0.0.1:0") as broker:
        address = broker.text.split("metrics at ")[1].split("/metrics")[0]
        with urllib.request.urlopen(f"{address}/metrics") as answer:  # noqa: S310 - loopback
            page = Scraped(answer.read().decode())
        assert page.value("kafka_brokers") == 1
        code, out, err = finished(
            "broker", "start", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "other"),
            "--metrics", address.removeprefix("http://"), home=tmp_path,
        )  # fmt: skip
        assert code == 1, out
        assert "the metrics cannot listen: choose another --metrics" in err
        assert "Traceback" not in err
        assert broker.stop()[0] == 0


@pytest.mark.real
def test_an_address_that_is_none_is_refused_before_the_start(tmp_path: Path) -> None:
    code, _, err = finished(
        "broker", "start", "--listen", "127.0.0.1:0", "--metrics", "nowhere:x", home=tmp_path
    )

    assert code == 2
    assert "nowhere:x" in err
    assert "Traceback" not in err
