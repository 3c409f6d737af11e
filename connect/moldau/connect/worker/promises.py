"""Checks what a source's config asks of exactly-once, with the worker that is to run it. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from moldau.connect.api import SourceConnector
from moldau.connect.config.exactly_once import SUPPORT, is_exactly_once
from moldau.connect.config.model import Problem
from moldau.connect.installed.plugins import connector_class
from moldau.connect.worker.guarantee import EXACTLY_ONCE, guarantee_of, supports_exactly_once
from moldau.errors import MoldauError

_REQUIRED: Final = "exactly.once.support"
_BOUNDARY: Final = "transaction.boundary"
_INTERVAL: Final = "transaction.boundary.interval.ms"
_TIMEOUT: Final = "producer.override.transaction.timeout.ms"
_TOPIC: Final = "offsets.storage.topic"
_WORKERS_TOPIC: Final = "offset.storage.topic"
_ENABLE: Final = f"set {SUPPORT}=enabled on every worker"
_OWN: Final = {
    "producer.override.transactional.id": "the worker names it by its group, connector and task",
    "producer.override.enable.idempotence": "a transaction needs true",
    "producer.override.acks": "a transaction needs all",
}
_TRUE: Final = frozenset({"true", "all", "-1"})


def promise_problems(props: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[Problem]:
    """Yield what the worker or the connector cannot do of what a source's config asks for."""
    try:
        kind = connector_class(props)
    except MoldauError:
        return
    if _text(props, _REQUIRED) == "required":
        yield from _of_required(kind, props, worker)
    if not issubclass(kind, SourceConnector):
        return
    if _text(props, _BOUNDARY) == "connector" and not _defines_boundaries(kind, props):
        yield Problem(
            _BOUNDARY,
            "the connector does not define the boundaries of transactions with this config -> use "
            "poll or interval",
        )
    topic = props.get(_TOPIC, "").strip()
    if topic and topic != worker.get(_WORKERS_TOPIC, ""):
        yield Problem(
            _TOPIC,
            "the offsets of all connectors are in the worker's offset.storage.topic -> leave the "
            "setting out",
        )
    if is_exactly_once(worker):
        yield from _of_producer(props)


def _of_required(
    kind: type, props: Mapping[str, str], worker: Mapping[str, str]
) -> Iterator[Problem]:
    promise = guarantee_of(props, worker)
    if promise.startswith(EXACTLY_ONCE):
        return
    way = "leave the setting out, or take a connector and a config that do"
    if not is_exactly_once(worker) and supports_exactly_once(kind, props):
        way = f"leave the setting out, or {_ENABLE}"
    yield Problem(
        _REQUIRED,
        f"the connector cannot promise exactly-once with this config, but {promise} -> {way}",
    )


def _defines_boundaries(kind: type[SourceConnector], props: Mapping[str, str]) -> bool:
    try:
        return kind().can_define_transaction_boundaries(dict(props))
    except (MoldauError, LookupError, ValueError):
        return False


def _of_producer(props: Mapping[str, str]) -> Iterator[Problem]:
    for name, reason in _OWN.items():
        if name in props and _text(props, name) not in _TRUE:
            yield Problem(name, f"the source writes in transactions: {reason} -> leave it out")
    interval, timeout = props.get(_INTERVAL, ""), props.get(_TIMEOUT, "")
    is_long = interval.isdecimal() and timeout.isdecimal() and int(interval) >= int(timeout)
    if _text(props, _BOUNDARY) == "interval" and is_long:
        yield Problem(
            _INTERVAL,
            f"the cluster aborts each transaction after {timeout} ms ({_TIMEOUT}) -> make the "
            "interval shorter, or the timeout longer",
        )


def unused_boundaries(props: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a warning for each setting of transactions that has no effect."""
    if not is_exactly_once(worker):
        for name in (_BOUNDARY, _INTERVAL):
            if props.get(name, "").strip():
                yield Problem(name, f'"{name}" has no effect: to write in transactions, {_ENABLE}')
    elif _INTERVAL in props and _text(props, _BOUNDARY) != "interval":
        yield Problem(_INTERVAL, f'"{_INTERVAL}" has no effect without {_BOUNDARY}=interval')


def _text(props: Mapping[str, str], name: str) -> str:
    return props.get(name, "").strip().lower()
