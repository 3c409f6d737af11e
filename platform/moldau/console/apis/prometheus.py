"""A Prometheus server, asked for ranges of the series that docs/metrics.md names.

The address may have user:password@, and a query: labels that all series must have, where the server
has more than this cluster, as `http://prometheus:9090?job=moldau&env=eu`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import parse_qsl

from moldau.console.apis.rest import Refused, Rest, ask_all
from moldau.console.charts import Past
from moldau.errors import ConfigError
from moldau.runtime.http_client import base_url

if TYPE_CHECKING:
    from moldau.runtime import Runtime

PROMETHEUS: Final = "prometheus.url"
"""The console's setting for the address."""
TIMEOUT_S: Final = 10.0
POINTS: Final = 180
STEP_MIN_S: Final = 15
RATE_MIN_S: Final = 60
"""The least time of a rate: four scrapes of a server that looks each 15 s."""
_HINT: Final = "is it up, and is the address right?"
_TRAFFIC: Final = "kafka_server_brokertopicmetrics_"
_RATES: Final = {
    "bytes_in": f"{_TRAFFIC}bytesin_total",
    "bytes_out": f"{_TRAFFIC}bytesout_total",
    "messages_in": f"{_TRAFFIC}messagesin_total",
    "failed_produces": f"{_TRAFFIC}failedproducerequests_total",
    "failed_fetches": f"{_TRAFFIC}failedfetchrequests_total",
}
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


class PrometheusRefused(Refused):
    """Prometheus rejected a query, or does not answer."""

    title: ClassVar[str] = "Prometheus refuses"
    silent_title: ClassVar[str] = "Prometheus does not answer"


def check_prometheus(url: str) -> tuple[str, dict[str, str]]:
    """Return the address without its query, and the labels that all series must have. Raise
    ConfigError."""
    place, mark, text = url.partition("?")
    labels = dict(parse_qsl(text, keep_blank_values=True))
    if bool(mark) != bool(labels) or not all(
        name.isidentifier() and value for name, value in labels.items()
    ):
        raise ConfigError(f"no labels of Prometheus: ?{text}; give ?NAME=VALUE&NAME=VALUE")
    try:
        base_url(place)
    except ValueError as error:
        raise ConfigError(f"no URL of Prometheus: {error}") from None
    return place, labels


class PrometheusApi:
    """One server."""

    def __init__(self, runtime: Runtime, url: str) -> None:
        """Take an address as the module says. Raise ConfigError."""
        place, self._labels = check_prometheus(url)
        self._rest = Rest(runtime, place, "Prometheus", _HINT, TIMEOUT_S)
        self.url = self._rest.url

    async def past(self, kind: str, name: str, range_s: int, now_ms: int) -> Past:
        """Return the last `range_s` seconds of a cluster, broker, topic or group. Raise
        PrometheusRefused."""
        step_s = max(STEP_MIN_S, range_s // POINTS)
        end_s = now_ms // 1000 // step_s * step_s
        queries = self.queries(kind, name, max(RATE_MIN_S, step_s))
        query = {"start": end_s - range_s, "end": end_s, "step": step_s}
        answers = await ask_all(self._line({**query, "query": each}) for each in queries.values())
        times = sorted({at_ms for line in answers for at_ms in line})
        columns = {
            column: [line.get(at_ms) for at_ms in times]
            for column, line in zip(queries, answers, strict=True)
        }
        return Past(f"Prometheus at {self.url}", step_s * 1000, times, columns)

    def queries(self, kind: str, name: str, rate_s: int) -> dict[str, str]:
        """Return the query of each column."""
        if kind == "group":
            one = self._series("kafka_consumergroup_lag", consumergroup=name)
            share = self._series("moldau_sharegroup_lag", group=name)
            return {"lag": f"sum({one} or {share})"}
        topic, of_node = name if kind == "topic" else "", ""
        if kind == "broker":
            node = self._series("moldau_build_info", node=name)
            of_node = f" * on(instance, job) group_left() {node}"
        found = {
            column: f"sum(rate({self._series(series, topic=topic)}[{rate_s}s]){of_node})"
            for column, series in _RATES.items()
        }
        if kind == "topic":
            one = self._series("kafka_consumergroup_lag", topic=name)
            share = self._series("moldau_sharegroup_lag", topic=name)
            found["lag"] = f"sum({one} or {share})"
        return found

    def _series(self, series: str, **labels: str) -> str:
        chosen = {**self._labels, **labels}
        pairs = (f'{label}="{text.translate(_ESCAPES)}"' for label, text in chosen.items())
        return f"{series}{{{','.join(pairs)}}}"

    async def _line(self, query: Mapping[str, Any]) -> dict[int, float]:
        found = await self._rest.request("GET", "/api/v1/query_range", PrometheusRefused, query)
        try:
            results = found["data"]["result"]
            pairs = results[0]["values"] if results else []
            line = {round(float(at) * 1000): float(text) for at, text in pairs}
        except (AttributeError, KeyError, TypeError, ValueError):
            text = f"{self.url} answers, but not as Prometheus does: is it the right address?"
            raise PrometheusRefused(text) from None
        return {at_ms: value for at_ms, value in line.items() if math.isfinite(value)}

    async def aclose(self) -> None:
        """Close the connections."""
        await self._rest.aclose()
