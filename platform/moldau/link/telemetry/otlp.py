"""Pushes metrics to an OTLP receiver by http/protobuf, at an interval, until it is closed.

    target = otlp_target(address_or_none, environment)      # OTEL_EXPORTER_OTLP_ENDPOINT counts
    push = OtlpPush(runtime, target, gather, log)

Invariants: one push is on its way at a time, and nothing is kept for later: the counters are
cumulative, so the next push repeats what a failed one has lost. Memory is bounded by one request,
and what waits is this task and no other. A failure is logged once, and once that it is over.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from moldau.deferred import dataclass
from moldau.errors import ConfigError, MalformedMessage
from moldau.metrics.otlp import CONTENT_TYPE, Requests
from moldau.metrics.protobuf import as_bytes, as_int, as_text, fields
from moldau.runtime.http_client import HttpClient, HttpTimeouts, NoAnswer
from moldau.runtime.timeouts import timeout

if TYPE_CHECKING:
    import logging
    import ssl

    from moldau.metrics.snapshot import Attributes
    from moldau.runtime import Runtime

_TIMEOUT_MS: Final = 10_000
_MS: Final = 1_000.0
_LAST_S: Final = 2.0
"""So long the end of a program waits for its last push."""
SCOPE: Final = "moldau"
_ANSWER_BYTES: Final = 1 << 20
_LATER: Final = (429, 502, 503, 504)
"""What a receiver answers that may take the same request later, as OTLP says."""
_PREFIX: Final = "OTEL_EXPORTER_OTLP_"


class Signal(NamedTuple):
    """What is pushed: metrics or traces, and the names that OpenTelemetry has for it."""

    name: str
    path: str
    exporter: str
    interval: str
    interval_ms: int
    items: str


METRICS: Final = Signal(
    "METRICS",
    "/v1/metrics",
    "OTEL_METRICS_EXPORTER",
    "OTEL_METRIC_EXPORT_INTERVAL",
    60_000,
    "points",
)
TRACES: Final = Signal(
    "TRACES", "/v1/traces", "OTEL_TRACES_EXPORTER", "OTEL_BSP_SCHEDULE_DELAY", 5_000, "spans"
)


@dataclass(frozen=True, slots=True)
class OtlpTarget:
    """Where a signal is pushed to, and how."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    """They may have the key of a service, so they are not shown."""
    interval_s: float = METRICS.interval_ms / _MS
    timeout_s: float = _TIMEOUT_MS / _MS
    is_gzip: bool = False
    certificate: str | None = None
    """A file of authorities that are trusted instead of the system's."""
    resource: Attributes = ()
    """OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME."""

    @property
    def shown(self) -> str:
        """The URL without a password."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def otlp_target(
    given: str | None,
    environment: Mapping[str, str],
    option: str = "--otlp",
    signal: Signal = METRICS,
) -> OtlpTarget | None:
    """Return the target that `given` or OpenTelemetry's variables name; None if there is none.
    Raise ConfigError. `given` and OTEL_EXPORTER_OTLP_ENDPOINT name the receiver: /v1/metrics (or
    /v1/traces) is added to that address; OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is the whole URL."""
    url, source = given, option
    is_whole = False
    if not url:
        if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
            return None
        if environment.get(signal.exporter, "otlp") not in ("", "otlp"):
            return None
        source = f"{_PREFIX}{signal.name}_ENDPOINT"
        url, is_whole = environment.get(source), True
    if not url:
        source = f"{_PREFIX}ENDPOINT"
        url, is_whole = environment.get(source), False
    if not url:
        return None
    protocol = _of(environment, signal, "PROTOCOL")
    if protocol not in (None, "http/protobuf"):
        raise ConfigError(f"{_PREFIX}PROTOCOL is {protocol}: only http/protobuf is spoken")
    compression = _of(environment, signal, "COMPRESSION")
    if compression not in (None, "gzip", "none"):
        raise ConfigError(f"{_PREFIX}COMPRESSION is {compression}: give gzip or none")
    timeout = _of(environment, signal, "TIMEOUT")
    return OtlpTarget(
        _checked(url, source, signal.path, is_whole=is_whole),
        _headers(_of(environment, signal, "HEADERS")),
        _seconds(signal.interval, environment.get(signal.interval), signal.interval_ms),
        _seconds(f"{_PREFIX}TIMEOUT", timeout, _TIMEOUT_MS),
        compression == "gzip",
        _of(environment, signal, "CERTIFICATE"),
        _resource(environment),
    )


def _of(environment: Mapping[str, str], signal: Signal, name: str) -> str | None:
    """Return the variable for the signal, or that for all signals."""
    own = environment.get(f"{_PREFIX}{signal.name}_{name}")
    return own or environment.get(_PREFIX + name) or None


def _checked(url: str, source: str, path: str, *, is_whole: bool) -> str:
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")
    except ValueError:
        is_good = False
    if not is_good or not url.isascii() or not url.isprintable() or " " in url:
        shown = url.rpartition("@")[2]
        raise ConfigError(f"{source} takes http://HOST:PORT or https://HOST:PORT, not {shown!r}")
    if parts.username is not None:
        raise ConfigError(
            f"{source}: a user and a password in it are not sent; give "
            f"{_PREFIX}HEADERS='Authorization=Basic ...'"
        )
    if is_whole or parts.path.endswith(path):
        return url
    return parts._replace(path=parts.path.rstrip("/") + path).geturl()


def _headers(value: str | None) -> dict[str, str]:
    found = _pairs(f"{_PREFIX}HEADERS", value)
    for key, text in found.items():
        if not (key.isascii() and text.isascii()) or " " in key or ":" in key:
            raise ConfigError(f"{_PREFIX}HEADERS: one item has a character that HTTP does not take")
    return found


def _pairs(name: str, value: str | None) -> dict[str, str]:
    found = {}
    for each in (value or "").split(","):
        key, equals, text = (part.strip() for part in each.partition("="))
        decoded = unquote(text)
        if not each.strip():
            continue
        if not equals or not key or not decoded.isprintable() or not key.isprintable():
            raise ConfigError(f"{name} takes KEY=VALUE,KEY=VALUE: one item is something else")
        found[key] = decoded
    return found


def _seconds(name: str, value: str | None, default_ms: int) -> float:
    if value is None or not value.strip():
        return default_ms / _MS
    if not value.strip().isdecimal() or int(value) < 1:
        raise ConfigError(f"{name} takes milliseconds, not {value!r}")
    return int(value) / _MS


def _resource(environment: Mapping[str, str]) -> Attributes:
    name = "OTEL_RESOURCE_ATTRIBUTES"
    found = _pairs(name, environment.get(name))
    service = environment.get("OTEL_SERVICE_NAME")
    return tuple({**found, **({"service.name": service} if service else {})}.items())


def resource_of(target: OtlpTarget, own: Mapping[str, str]) -> Attributes:
    """Return the attributes of what pushes; those of the environment win."""
    return tuple({**own, **dict(target.resource)}.items())


@dataclass(frozen=True, slots=True)
class PushContent:
    """What one push sends."""

    resource: Attributes
    metrics: AsyncIterator[bytes]
    """Metric messages; each `anext` takes about a millisecond at most."""


Gather = Callable[[], PushContent | None]
"""Returns what to push now; None: nothing yet."""


class Failure(NamedTuple):
    """Why a push failed, and whether the same bytes may do better later."""

    reason: str
    may_retry: bool = True


class Lines(Protocol):
    """What is used of a log."""

    def warn(self, event: str, /, **facts: object) -> None: ...

    def info(self, event: str, /, **facts: object) -> None: ...


class StandardLog:
    """Lines in a logger of Python's `logging`, which programs of users have."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def warn(self, event: str, /, **facts: object) -> None:
        self._logger.warning("%s: %s", event, _told(facts))

    def info(self, event: str, /, **facts: object) -> None:
        self._logger.info("%s: %s", event, _told(facts))


def _told(facts: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in facts.items())


class OtlpPosts:
    """The posts to one target, one at a time. A failure is logged once, and once that it is
    over."""

    def __init__(self, runtime: Runtime, target: OtlpTarget, log: Lines, signal: Signal) -> None:
        self._runtime = runtime
        self._target = target
        self._log = log
        self._signal = signal
        self._failure: Failure | None = None
        waits = HttpTimeouts(target.timeout_s, target.timeout_s)
        self._http = HttpClient(runtime, waits, _context(target), bytes_max=_ANSWER_BYTES)

    async def post(self, body: bytes) -> Failure | None:
        """Post one request; return why that failed."""
        target = self._target
        headers = {"Content-Type": CONTENT_TYPE, "User-Agent": SCOPE, **target.headers}
        if target.is_gzip:
            body = await self._runtime.run_blocking(gzip.compress, body, 1)
            headers["Content-Encoding"] = "gzip"
        try:
            async with timeout(target.timeout_s):
                answer = await self._http.request("POST", target.url, body, headers)
        except NoAnswer as error:
            return Failure(str(error))
        except TimeoutError:
            return Failure(f"no answer within {target.timeout_s:g} s")
        if answer.is_good:
            rejected = _rejected(answer.body, self._signal.items)
            return None if rejected is None else Failure(rejected, may_retry=False)
        return Failure(f"it answers {answer.status}", may_retry=answer.status in _LATER)

    @property
    def is_failing(self) -> bool:
        """Whether the last push failed."""
        return self._failure is not None

    def report_last(self, failure: Failure | None) -> None:
        """Note how a push went that no other follows."""
        if failure is not None:
            self._log.warn(
                f"the last {self._signal.name.lower()} cannot be pushed",
                url=self._target.shown,
                reason=failure.reason,
            )

    def report(self, failure: Failure | None) -> None:
        """Note how the last push went."""
        what = self._signal.name.lower()
        if failure is not None and self._failure is None:
            self._log.warn(
                f"the {what} cannot be pushed; tried again at each interval",
                url=self._target.shown,
                reason=failure.reason,
            )
        elif failure is None and self._failure is not None:
            self._log.info(f"the {what} are pushed again", url=self._target.shown)
        self._failure = failure


class OtlpPush:
    """A task that pushes metrics; see the module."""

    def __init__(self, runtime: Runtime, target: OtlpTarget, gather: Gather, log: Lines) -> None:
        self._runtime = runtime
        self._target = target
        self._gather = gather
        self._posts = OtlpPosts(runtime, target, log, METRICS)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin. The first push is after one interval."""
        self._task = self._runtime.spawn(self._run(), name="otlp push")

    async def aclose(self) -> None:
        """Stop at once."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def finish(self) -> None:
        """Stop, and push the last values in the time of _LAST_S; not to a receiver that the last
        push did not reach."""
        await self.aclose()
        if self._posts.is_failing or (gathered := self._gather()) is None:
            return
        failure: Failure | None = Failure(f"no answer within {_LAST_S:g} s")
        with suppress(TimeoutError):
            async with timeout(_LAST_S):
                failure = await self._push(gathered)
        self._posts.report_last(failure)

    async def _run(self) -> None:
        clock, interval_s = self._runtime.clock, self._target.interval_s
        due = clock.monotonic()
        while True:
            due = max(due + interval_s, clock.monotonic())
            await asyncio.sleep(due - clock.monotonic())
            gathered = self._gather()
            if gathered is not None:
                self._posts.report(await self._push(gathered))

    async def _push(self, gathered: PushContent) -> Failure | None:
        """Push everything; return why that failed."""
        packed = Requests(gathered.resource, SCOPE)
        refused = None
        async for metric in gathered.metrics:
            body = packed.add(metric)
            if body is not None:
                refused = await self._posts.post(body) or refused
            await asyncio.sleep(0)  # also where all metrics are there at once
        last = packed.rest()
        if last is not None:
            refused = await self._posts.post(last) or refused
        return refused


def _context(target: OtlpTarget) -> ssl.SSLContext | None:
    if not target.url.startswith("https:"):
        return None
    import ssl

    try:
        return ssl.create_default_context(cafile=target.certificate)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"{_PREFIX}CERTIFICATE {target.certificate} cannot be used: {error}"
        ) from error


def _rejected(answer: bytes, items: str) -> str | None:
    """Return what the receiver says of items that it has not taken. An answer that is no protobuf
    rejects none."""
    count, words = 0, ""
    with suppress(MalformedMessage):
        for number, value in fields(answer):
            for part, inner in fields(as_bytes(value)) if number == 1 else ():
                if part == 1:
                    count = as_int(inner)
                elif part == 2:
                    words = as_text(inner)
    return f"it rejects {count} {items}: {words}" if count else None
