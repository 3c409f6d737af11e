"""The metrics of an instance: counted, documented, and served beside the REST API."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path

import pytest

from moldau.metrics import CONTENT_TYPE
from moldau.testing import SyncEmbeddedBroker
from tests.broker.main.processes import finished
from tests.metrics.exposition import ReadFamily, read_exposition
from tests.metrics.monitoring import series_of
from tests.metrics.otlp_receiver import receiver
from tests.registry.served import USER, USER_2, in_memory, process

PAGE = Path(__file__).parents[2] / "docs" / "registry.md"


def test_versions_are_counted_through_every_kind_of_deletion() -> None:
    async def main() -> list[dict[bool, int]]:
        seen = []
        async with in_memory() as (rest, memory):
            for _ in range(2):
                await rest.register("a", USER)
                await rest.register("a", USER_2)
                seen.append(dict(memory.store.counts))
                await rest.ask("DELETE", "/subjects/a/versions/1")
                seen.append(dict(memory.store.counts))
                await rest.ask("DELETE", "/subjects/a/versions/1?permanent=true")
                seen.append(dict(memory.store.counts))
                await rest.ask("DELETE", "/subjects/a")
                seen.append(dict(memory.store.counts))
                await rest.ask("DELETE", "/subjects/a?permanent=true")
                seen.append(dict(memory.store.counts))
        return seen

    one_run = [(2, 0), (1, 1), (1, 0), (0, 1), (0, 0)]
    assert [(each[False], each[True]) for each in asyncio.run(main())] == one_run * 2


def test_the_page_says_what_was_answered_and_what_is_stored() -> None:
    async def main() -> dict[str, ReadFamily]:
        async with in_memory() as (rest, _):
            await rest.register("a-value", USER)
            await rest.register("a-value", USER_2)
            await rest.register("b-value", USER)
            assert await rest.error("GET", "/subjects/nope/versions") == (404, 40401)
            assert await rest.ask("DELETE", "/subjects/b-value") == (200, [1])
            answer = await rest.http.get("/metrics")
            assert answer.headers["content-type"] == CONTENT_TYPE
            return read_exposition(answer.text)

    found = asyncio.run(main())
    name = "kafka_schema_registry"
    assert found[f"{name}_registered_count"].value() == 2
    assert found[f"{name}_deleted_count"].value() == 1
    assert found[f"{name}_subjects"].value() == 2
    assert found[f"{name}_master_slave_role"].value() == 1
    assert found[f"{name}_api_success_count_total"].value() == 4
    assert found[f"{name}_api_failure_count_total"].value() == 1
    assert found[f"{name}_api_requests_total"].value(method="POST", status="200") == 3
    assert found[f"{name}_api_duration_seconds"].value("_count") == 5
    told = PAGE.read_text(encoding="ascii")
    assert [each for each in found if f"`{each}`" not in told] == []
    asked = series_of("grafana-registry", "alerts-registry")
    assert len(asked) > 5
    series = {name for family in found.values() for name, _ in family.samples}
    assert asked <= series


@pytest.mark.real
def test_an_instance_serves_its_page_and_pushes_what_it_has(
    moldau_broker: SyncEmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # At the end, which comes before the interval is over.
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "3600000")
    with receiver() as pushed:
        setting = f"moldau.metrics.otlp.endpoint={pushed.address}"
        with process(moldau_broker.bootstrap_servers, "--set", setting) as (_, url):
            with urllib.request.urlopen(f"{url}/metrics") as answer:  # noqa: S310 - loopback
                found = read_exposition(answer.read().decode())
            assert not pushed.metrics()
        resource = {"service__name": "moldau-registry", "service__instance__id": url}
        metric = pushed.metrics(**resource)["kafka.schema_registry.subjects"]
    subjects = found["kafka_schema_registry_subjects"].value()
    assert metric.gauge.data_points[0].as_int == subjects


@pytest.mark.real
def test_an_otlp_address_that_is_none_is_refused(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    setting = "moldau.metrics.otlp.endpoint"
    start = ("registry", "start", "-b", moldau_broker.bootstrap_servers)
    for name, given in (
        ("--otlp", ("--otlp", "localhost:4318")),
        (setting, ("--set", f"{setting}=localhost:4318")),
    ):
        code, _, err = finished(*start, *given, home=tmp_path)
        assert code == 2
        assert f"{name} takes http://HOST:PORT" in err
        assert "Traceback" not in err
