"""Reads OTLP's MetricsData from a client: sums and gauges, bounded. No IO.

Histograms and summaries are left out: Kafka's clients push none. Bytes that are no message raise
MalformedMessage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from moldau.errors import MalformedMessage
from moldau.metrics.protobuf import (
    Value,
    as_bytes,
    as_double,
    as_int,
    as_signed64,
    as_text,
    fields,
)

_DELTA: Final = 1
_GAUGE, _SUM = 5, 7
_TEXT_CHARACTERS: Final = 250
_LABELS_MAX: Final = 20


class Figure(NamedTuple):
    """One value of one series."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    is_counter: bool
    is_delta: bool
    """Whether `value` is what was added since the last push."""


def read_figures(data: bytes, figures_max: int) -> list[Figure]:
    """Return the values of a push, `figures_max` of them at most."""
    found: list[Figure] = []
    for number, resource in fields(data):
        if number == 1:
            for figure in _of_resource(as_bytes(resource)):
                if len(found) >= figures_max:
                    return found
                found.append(figure)
    return found


def _of_resource(data: bytes) -> Iterator[Figure]:
    shared: list[tuple[str, str]] = []
    scopes: list[bytes] = []
    for number, value in fields(data):
        if number == 1:
            shared += [_attribute(each) for part, each in fields(as_bytes(value)) if part == 1]
        elif number == 2:
            scopes.append(as_bytes(value))
    for scope in scopes:
        for number, metric in fields(scope):
            if number == 2:
                yield from _of_metric(as_bytes(metric), shared)


def _of_metric(data: bytes, shared: list[tuple[str, str]]) -> Iterator[Figure]:
    name, kind, body = "", 0, b""
    for number, value in fields(data):
        if number == 1:
            name = as_text(value)
        elif number in (_GAUGE, _SUM):
            kind, body = number, as_bytes(value)
    if not kind:
        return
    points: list[bytes] = []
    is_delta = is_monotonic = False
    for number, value in fields(body):
        if number == 1:
            points.append(as_bytes(value))
        elif number == 2:
            is_delta = as_int(value) == _DELTA
        elif number == 3:
            is_monotonic = bool(as_int(value))
    for point in points:
        labels, number_found = _point(point)
        if number_found is not None:
            pairs = tuple((*shared, *labels)[:_LABELS_MAX])
            yield Figure(name, pairs, number_found, kind == _SUM and is_monotonic, is_delta)


def _point(data: bytes) -> tuple[list[tuple[str, str]], float | None]:
    labels: list[tuple[str, str]] = []
    found: float | None = None
    for number, value in fields(data):
        if number == 4:
            found = as_double(value)
        elif number == 6:
            found = as_signed64(value)
        elif number == 7:
            labels.append(_attribute(value))
    return labels, found


def _attribute(data: Value) -> tuple[str, str]:
    key = text = ""
    for number, value in fields(as_bytes(data)):
        if number == 1:
            key = as_text(value)
        elif number == 2:
            for kind, inner in fields(as_bytes(value)):
                text = _shown(kind, inner)
    return key[:_TEXT_CHARACTERS], text[:_TEXT_CHARACTERS]


def _shown(kind: int, value: Value) -> str:
    if kind == 1:
        return as_text(value)
    if kind == 2:
        return "true" if as_int(value) else "false"
    if kind == 3:
        return str(as_int(value))
    if kind == 4:
        return str(as_double(value))
    raise MalformedMessage("an OTLP attribute is neither text nor a number")
