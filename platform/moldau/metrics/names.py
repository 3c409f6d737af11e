"""Metric names for two systems: OpenTelemetry's dotted names and Prometheus' underscored ones.

A metric is declared once, with its OpenTelemetry name (`moldau.network.request.duration`, unit
`s`). The Prometheus name follows from OpenTelemetry's compatibility rules: dots become underscores,
the unit becomes a word at the end, a counter ends in `_total`. The same applies to labels.
"""

from __future__ import annotations

from enum import Enum

from moldau.deferred import deferred_pattern


class MetricKind(Enum):
    """The kinds of a Prometheus TYPE line; for OTLP a counter is a cumulative monotonic sum."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


_NAME = deferred_pattern(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
_RESERVED_LABELS = frozenset(("le", "quantile"))

# UCUM, as OpenTelemetry writes units; a unit in braces counts things and has no word.
_UNIT_WORDS = {
    "1": "",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
    "By": "bytes",
    "KiBy": "kibibytes",
    "MiBy": "mebibytes",
    "%": "percent",
    "Cel": "celsius",
}
_PER_WORDS = {"s": "second", "min": "minute", "h": "hour", "d": "day"}


def assert_name(name: str) -> None:
    """Check that a name has only lower-case words, joined by dots and underscores."""
    assert _NAME.fullmatch(name), f"{name!r} is not a name of dotted lower-case words"


def prometheus_label(name: str) -> str:
    """Return the Prometheus name of a label: `error.type` is `error_type`."""
    assert_name(name)
    label = name.replace(".", "_")
    assert label not in _RESERVED_LABELS, f"{label} means something to Prometheus itself"
    assert not label.startswith("__")
    return label


def prometheus_name(name: str, unit: str, kind: MetricKind) -> str:
    """Return the family's name in Prometheus' text; for a histogram without `_bucket` and so on."""
    assert_name(name)
    base = name.replace(".", "_").removesuffix("_total")
    words = unit_words(unit)
    if unit == "1" and kind is MetricKind.GAUGE:
        words = "ratio"
    if words and not base.endswith(f"_{words}"):
        base = f"{base}_{words}"
    return f"{base}_total" if kind is MetricKind.COUNTER else base


def unit_words(unit: str) -> str:
    """Return the words of a unit: `By` is `bytes`, `By/s` `bytes_per_second`, `{request}` empty."""
    if not unit or (unit.startswith("{") and unit.endswith("}")):
        return ""
    whole, slash, per = unit.partition("/")
    words = "" if whole.startswith("{") else _UNIT_WORDS.get(whole)
    assert words is not None, f"unit {unit!r} has no word yet: add it to the table"
    if not slash:
        return words
    return f"{words}_per_{_PER_WORDS[per]}".lstrip("_")
