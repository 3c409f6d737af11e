"""A record is followed from its producer through two sub-topologies into a sink."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from moldau.client import OtlpTracing, Producer
from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.connect.processes import command
from tests.connect.worker.scene import TEXT
from tests.metrics.exposition import read_exposition
from tests.metrics.monitoring import series_of
from tests.metrics.otlp_receiver import Receiver, receiver
from tests.metrics.otlp_spans import Arrived
from tests.peers.eventually import eventually
from tests.streams.real.running import App

pytestmark = pytest.mark.real

TASKS: Final = {"0_0", "0_1", "1_0", "1_1"}
_AT: Final = re.compile(r"metrics at (http://\S+)/metrics")


def test_a_record_makes_one_trace_from_producer_to_sink(
    moldau: MoldauBroker, tmp_path: Path
) -> None:
    name = f"traced-{tmp_path.name}"
    app = App(moldau.bootstrap_servers, name, tmp_path, partitions=1).make()
    sink, out, worker = tmp_path / "sink.json", tmp_path / "out", tmp_path / "worker"
    config = {"connector.class": "FileStreamSink", "topics": f"{name}-out", "file": str(out)}
    sink.write_text(json.dumps({"name": f"{name}-sink", "config": config}))
    settings = (f"key.converter={TEXT}", f"value.converter={TEXT}", "offset.flush.interval.ms=200")
    worker.write_text("\n".join(settings))
    with receiver() as found:
        variables = {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{found.address}/v1/traces",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "OTEL_METRIC_EXPORT_INTERVAL": "100",
        }
        running = app.start("--traces", found.address, "--trace-ratio", "0")
        words = ("run", str(sink), "--bootstrap", app.servers, "--state", str(tmp_path / "state-c"),
                 "-c", str(worker), "--trace-ratio", "0", "--otlp", found.address)  # fmt: skip
        with command(*words, environment=variables):
            asyncio.run(send(app.servers, f"{name}-lines", found.address))
            last = f"process {name}-out"
            spans = found.wait_spans(lambda spans: last in {each.name for each in spans})
            assert content(out) == ["1", "1"], "the record without a trace went the same way"
            app.stop(running)
            name_of_tasks = "kafka_connect_worker_task_count"
            tasks = found.wait(name_of_tasks, service__name="moldau-connect")
            assert tasks.gauge.data_points[0].as_double == 1
            (instance,) = found.instances("moldau-connect")
            assert instance.startswith("standalone-"), "workers of two machines are told apart"
        spans = found.wait_spans(lambda spans: len(spans) >= 6)
    hops = [
        ("shop", f"send {name}-lines"),
        (name, f"process {name}-lines"),
        (name, f"send {name}-counts-repartition"),
        (name, f"process {name}-counts-repartition"),
        (name, f"send {name}-out"),
        (f"{name}-sink", f"process {name}-out"),
    ]
    assert sorted((each.service, each.name) for each in spans) == sorted(hops)
    assert len({each.span.trace_id for each in spans}) == 1
    by_name = {each.name: each for each in spans}
    parent = b""
    for _, hop in hops:
        assert by_name[hop].parent == parent, hop
        parent = by_name[hop].span.span_id
    assert facts_of(by_name[hops[3][1]], "moldau.streams.task") == "1_0"
    assert facts_of(by_name[hops[5][1]], "moldau.connector") == f"{name}-sink"
    assert all(each.span.end_time_unix_nano >= each.span.start_time_unix_nano for each in spans)
    assert not any(each.span.status.code for each in spans)


async def send(servers: str, topic: str, address: str) -> None:
    """A record with a trace, and one without."""
    tracing = OtlpTracing(address, service="shop")
    async with Producer(bootstrap_servers=servers, interceptors=[tracing]) as producer:
        await producer.send_and_wait(topic, b"followed")
    async with Producer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait(topic, b"alone")


def content(file: Path) -> list[str]:
    eventually(lambda: file.exists() and len(file.read_text().splitlines()) == 2, within_s=60)
    return file.read_text().splitlines()


def facts_of(span: Arrived, name: str) -> str | int:
    return span.facts[name]


def test_a_worker_serves_what_boards_and_alerts_ask_and_says_when_it_is_ready(
    moldau: MoldauBroker, tmp_path: Path
) -> None:
    app = App(moldau.bootstrap_servers, f"watched-{tmp_path.name}", tmp_path).make()
    running = app.start("--metrics", "127.0.0.1:0")
    eventually(lambda: _AT.search(app.log.read_text()), within_s=60)
    found = _AT.search(app.log.read_text())
    assert found is not None
    url = found[1]
    assert asked(f"{url}/healthz") == (200, "alive\n")
    eventually(lambda: asked(f"{url}/readyz") == (200, "ready\n"), within_s=60)
    app.write("one two")
    app.read(lambda rows: len(rows) == 2)
    status, text = asked(f"{url}/metrics")
    assert status == 200
    families = read_exposition(text)
    assert all(family.doc and not name.startswith("moldau_moldau") for name, family in
               families.items())  # fmt: skip
    served = {*families, *(name for each in families.values() for name, _ in each.samples)}
    wanted = series_of("grafana-streams", "alerts-streams")
    assert len(wanted) > 10
    assert wanted <= served
    assert asked(f"{url}/stores")[0] == 404, "queries have an address of their own"
    app.stop(running)


def asked(url: str) -> tuple[int, str]:
    """Status and body."""
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - loopback
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def app(moldau: MoldauBroker, tmp_path: Path) -> App:
    return App(moldau.bootstrap_servers, f"pushed-{tmp_path.name}", tmp_path).make()


@pytest.fixture
def found() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


def test_each_of_two_workers_pushes_the_metrics_of_its_tasks(
    app: App, found: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.address)
    running = app.start("--workers", "2")
    found.wait_for(lambda: len(pushing(found, app.name)) == 2, "two workers push")
    found.wait_for(
        lambda: set.union(*pushing(found, app.name).values()) == TASKS, "all tasks are told of"
    )
    app.stop(running)


def test_a_stopped_worker_pushes_what_it_has_counted(
    app: App, found: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "3600000")
    running = app.start("--otlp", found.address)
    app.write("a", "a", "b")
    app.read(lambda counts: counts == {"a": 2, "b": 1})
    assert not found.metrics(), "the interval is an hour"
    app.stop(running)
    metric = found.metrics(service__name=app.name)["moldau.streams.process.records"]
    counts = {each.attributes[0].value.string_value: each.as_int for each in metric.sum.data_points}
    assert counts.keys() == TASKS
    assert counts["0_0"] + counts["0_1"] == 3


def pushing(found: Receiver, app: str) -> dict[str, set[str]]:
    """The workers that have tasks, and those that their metrics name."""
    tasks = {}
    for worker in found.instances(app):
        metrics = found.metrics(service__name=app, service__instance__id=worker)
        if (metric := metrics.get("moldau.streams.process.records")) is not None:
            points = metric.sum.data_points
            tasks[worker] = {each.attributes[0].value.string_value for each in points}
    return tasks
