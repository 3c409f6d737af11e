"""The last quarter of an hour, as the nodes of a cluster keep it themselves (`/history`).

The addresses are given, or found by the wire: a node whose `moldau.metrics.listener` asks for no
login says in its settings where that is. A node of Apache Kafka has no such setting, and is not
asked.

Invariants: an answer counts if it is of this cluster. An address is looked up again after FOUND_S.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import BaseModel, ValidationError

from moldau.client.admin.configs import Resource, ResourceType
from moldau.console.apis.rest import Refused, Rest, ask_within
from moldau.deferred import dataclass
from moldau.errors.codes import KafkaError

if TYPE_CHECKING:
    from moldau.client import Admin
    from moldau.client.admin.cluster import ClusterDescription
    from moldau.runtime import Runtime

NODES: Final = "node.metrics.urls"
"""The console's setting for addresses of nodes' metrics, divided by spaces."""
LISTENER: Final = "moldau.metrics.listener"
PROTECTION: Final = "moldau.metrics.http.config"
FOUND_S: Final = 60.0
HASTY_S: Final = 0.15
"""How long a page waits: the rest comes when it is shown."""
_HINT: Final = "it is where a node was started with --metrics"
_WAIT_S: Final = 5.0
_EVERYWHERE: Final = ("", "0.0.0.0", "::")  # noqa: S104 - what a node listens at
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class NodeRefused(Refused):
    """A node rejected a question about its past, or does not answer."""

    title: ClassVar[str] = "A node refuses"
    silent_title: ClassVar[str] = "A node does not answer"


class NodePast(BaseModel):
    """The answer of a node."""

    cluster: str
    node: int
    columns: tuple[str, ...]
    readings: list[tuple[float | None, ...]]


@dataclass(slots=True)
class Pasts:
    """What the nodes said, and why some did not, by address."""

    parts: list[NodePast] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class NodePasts:
    """The metrics of a cluster's nodes, as far as they can be found."""

    def __init__(self, runtime: Runtime, given: Sequence[str]) -> None:
        """Take addresses, which may have user:password@; without any they are looked for. Raise
        ConfigError."""
        self._runtime = runtime
        self._is_given = bool(given)
        self._apis = {url: self._api(url) for url in given}
        self._found_at: float | None = None
        self._failed: dict[str, str] = {}

    async def ask(self, admin: Admin, patience_s: float, query: Mapping[str, str]) -> Pasts:
        """Return what the nodes say within this time about a topic, a group or themselves. A look
        that is hasty waits for no node that failed the last time while others answer."""
        described = await admin.describe_cluster()
        if not self._is_given:
            await self._find(admin, described)
        is_hasty = patience_s <= HASTY_S
        fresh = [url for url in self._apis if not (is_hasty and url in self._failed)]
        questions = {url: _past(api, query) for url, api in self._apis.items()}
        answers = await ask_within(self._runtime, patience_s, questions, fresh or self._apis.keys())
        found = Pasts()
        for url, answer in answers.items():
            if answer is None:
                late = f"{url} has not answered within {patience_s:g} s"
                self._failed.setdefault(url, late)
            elif isinstance(answer, Refused):
                self._failed[url] = str(answer)
            elif answer.cluster != described.cluster_id:
                self._failed[url] = f"{url} is of another cluster: {answer.cluster or 'none'}"
            else:
                self._failed.pop(url, None)
                found.parts.append(answer)
        found.problems += (self._failed[url] for url in answers if url in self._failed)
        return found

    async def _find(self, admin: Admin, described: ClusterDescription) -> None:
        now = self._runtime.clock.monotonic()
        if self._found_at is not None and now - self._found_at < FOUND_S:
            return
        self._found_at = now
        found = set()
        for broker in described.brokers:
            resource = Resource(ResourceType.BROKER, str(broker.node_id))
            try:
                entries = await admin.describe_configs(resource, names=(LISTENER, PROTECTION))
            except KafkaError:
                continue  # without the right to read settings there is no address
            values = {each.name: each.value for each in entries}
            if values.get(LISTENER) and not values.get(PROTECTION):
                url = url_of(str(values[LISTENER]), broker.address.host)
                if url is not None:
                    found.add(url)
        for url in self._apis.keys() - found:
            await self._apis.pop(url).aclose()
            self._failed.pop(url, None)
        self._apis |= {url: self._api(url) for url in sorted(found - self._apis.keys())}

    def _api(self, url: str) -> Rest:
        return Rest(self._runtime, url, "node", _HINT, _WAIT_S)

    async def aclose(self) -> None:
        """Close the connections."""
        for each in self._apis.values():
            await each.aclose()


def url_of(listener: str, host: str) -> str | None:
    """Return the address of a node's metrics by its setting and the host of its clients. None if
    only programs on that host reach it, and it is another one."""
    named, colon, port = listener.rpartition(":")
    named = named.removeprefix("[").removesuffix("]") if colon else _LOCAL[1]
    if named in _EVERYWHERE:
        named = host
    elif named in _LOCAL and host not in _LOCAL:
        return None
    return f"http://{f'[{named}]' if ':' in named else named}:{port}"


async def _past(api: Rest, query: Mapping[str, str]) -> NodePast:
    found = await api.request("GET", "/history", NodeRefused, query)
    try:
        return NodePast.model_validate(found)
    except ValidationError:
        text = f"{api.url} answers, but not as a node of this version does"
        raise NodeRefused(text) from None


def rows_of(
    parts: Iterable[NodePast],
) -> list[tuple[Sequence[str], Sequence[Sequence[float | None]]]]:
    """Return the parts as `added_up` takes them."""
    return [(each.columns, each.readings) for each in parts]
