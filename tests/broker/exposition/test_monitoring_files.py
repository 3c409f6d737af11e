"""Boards and alert rules: Prometheus accepts them, and every series that they name exists."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from moldau.testing import EmbeddedBroker
from tests.broker.exposition.scraped import application_of, scrape
from tests.broker.exposition.used_broker import used
from tests.broker.main.processes import broker_process
from tests.metrics.monitoring import FOLDER, panels, queries, series_in, series_of
from tests.metrics.prometheus_server import prometheus
from tests.peers.eventually import eventually

ALERTS = ("alerts", "alerts-streams", "alerts-connect", "alerts-registry")
BOARDS = ("grafana", "grafana-streams", "grafana-connect", "grafana-registry")


def test_a_query_names_its_series() -> None:
    query = 'sum by (topic) (rate(kafka_log_log_size{topic=~".*"}[1m])) / process_open_fds'
    assert series_in(query) == {"kafka_log_log_size", "process_open_fds"}


@pytest.mark.real
def test_every_series_of_boards_and_alerts_is_in_a_scrape() -> None:
    async def run() -> None:
        async with EmbeddedBroker() as broker:
            await used(broker.bootstrap_servers)
            page = await scrape(application_of(broker))
        asked = series_of("grafana", "alerts")
        assert len(asked) > 20
        assert asked <= page.values.keys()

    asyncio.run(run())


@pytest.mark.parametrize("board", BOARDS)
def test_panels_have_places_of_their_own(board: str) -> None:
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in panels(board)]

    assert len(set(places)) == len(places)


@pytest.mark.real
@pytest.mark.deep
def test_prometheus_accepts_the_files_and_scrapes_a_broker(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("prometheus is not installed (Debian: apt install prometheus)")
    for alerts in ALERTS:
        check(promtool, "check", "rules", FOLDER / f"{alerts}.yml")
    check(promtool, "check", "config", FOLDER / "prometheus.yml")
    with broker_process(tmp_path, "--metrics", "127.0.0.1:0") as broker:
        target = broker.text.split("metrics at http://")[1].split("/metrics")[0]
        with urllib.request.urlopen(f"http://{target}/metrics") as answer:
            text = answer.read()
        check(promtool, "check", "metrics", text=text, accepted=(0, 3))  # 3: it only gives advice
        with prometheus(tmp_path, target) as port:
            assert until_asked(port, "kafka_brokers") == "1"
            asked = [each for files in zip(BOARDS, ALERTS, strict=True) for each in queries(*files)]
            for query in asked:
                assert ask(port, query)["status"] == "success", query


def check(*words: str | Path, text: bytes | None = None, accepted: tuple[int, ...] = (0,)) -> None:
    """Run a check of promtool."""
    done = subprocess.run(  # noqa: S603
        list(map(str, words)), input=text, capture_output=True, check=False
    )
    assert done.returncode in accepted, done.stderr.decode() + done.stdout.decode()


def ask(port: int, query: str) -> dict[str, Any]:
    """Prometheus' answer."""
    words = urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{words}") as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def until_asked(port: int, query: str) -> str:
    """The value of a query as soon as there is one."""

    def results() -> Any:
        try:
            return ask(port, query)["data"]["result"]
        except OSError:
            return []

    eventually(results, within_s=120)
    return str(results()[0]["value"][1])
