"""The address where a worker listens for queries, and the one at which other workers reach it."""

from __future__ import annotations

from typing import NamedTuple

from moldau.config import Problem
from moldau.config.problems import BadSettings
from moldau.streams.worker.settings import (
    AppSettings,
    application_server,
    metrics_listener,
    queries_listen,
)

_PORT_MAX = 65_535
_ALL = ("", "0.0.0.0", "::", "*")  # noqa: S104 - compared, not bound
_LOCAL = ("localhost", "127.", "::1")


class HostPort(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach it."""
        return not self.host.startswith(_LOCAL)


def listen_place(settings: AppSettings, index: int) -> HostPort | None:
    """Return the address where worker number `index` listens; None if it does not listen."""
    text = settings.own[queries_listen]
    if not text:
        return None
    place = _parsed(queries_listen.name, text)
    if place.host in _ALL and not settings.own[application_server]:
        raise BadSettings(
            [
                Problem(
                    application_server.name,
                    f"must be given: {text} listens at all addresses of the machine, and the other "
                    "workers need one of them",
                )
            ]
        )
    return place if place.port == 0 else place._replace(port=place.port + index)


def metrics_place(settings: AppSettings, index: int) -> HostPort | None:
    """Return the address where worker number `index` serves its metrics; None if nowhere."""
    text = settings.own[metrics_listener]
    if not text:
        return None
    place = _parsed(metrics_listener.name, f"127.0.0.1:{text}" if text.isdecimal() else text)
    return place if place.port == 0 else place._replace(port=place.port + index)


def advertised(settings: AppSettings, bound: HostPort, index: int) -> str:
    """Return the address at which other workers reach worker number `index`."""
    text = settings.own[application_server]
    if not text:
        return str(bound)
    place = _parsed(application_server.name, text)
    return str(place._replace(port=place.port + index if place.port else bound.port))


def names_of(settings: AppSettings) -> tuple[str, ...]:
    """Return the names of a worker that other workers reach it by."""
    text = settings.own[application_server]
    return (_parsed(application_server.name, text).host,) if text else ()


def _parsed(name: str, text: str) -> HostPort:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or int(port) > _PORT_MAX:
        raise BadSettings([Problem(name, f"{text!r} must be host:port")])
    return HostPort(host, int(port))
