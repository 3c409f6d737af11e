"""How many shards `moldau broker start` runs: by the user, by what the disk has, by the cores.

| the directories have | `--shards N` | `--shards auto` | neither |
|-|-|-|-|
| nothing | N | by cores | by cores, if nothing says what a node's addresses are |
| shards 0 to K | N, at least K + 1 | K + 1 | K + 1 |
| the data of one broker | 1; more are refused | 1 | 1 |

By cores: three of four, so that clients and the system have some; 1 of one or two. Only in an empty
directory, because a shard's data would be missing without it, and one broker's data are no shard's.

No plan changes by default. A file, a variable or a `--set` with roles, ids, listeners or voters is
a plan. So is port 0. A listener of the network keeps one shard too, as further ports there may be
open to other machines, or not published by a container; but a line says what `--shards auto` does.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Final

from moldau.broker.main.broker_command import SHARDS_MAX
from moldau.broker.main.exposure import is_local
from moldau.broker.main.given import settings_given
from moldau.broker.server.storage import places_of
from moldau.broker.settings import network, read_listeners
from moldau.broker.settings.console import moldau_console_listener
from moldau.broker.settings.controller import (
    controller_quorum_bootstrap_servers,
    controller_quorum_voters,
)
from moldau.broker.settings.node import broker_id, node_id, process_roles
from moldau.broker.settings.registry import moldau_registry_listener
from moldau.broker.settings.telemetry import moldau_metrics_listener
from moldau.config import SourceKind
from moldau.deferred import dataclass
from moldau.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from moldau.config import Settings
    from moldau.runtime.files import Files

FOLDER: Final = "shard-"
_PORT_MAX: Final = 65_535
_FEW_CORES: Final = 2
_FORMATTED: Final = "meta.properties"
_USER: Final = frozenset((SourceKind.FILE, SourceKind.ENVIRONMENT, SourceKind.COMMAND_LINE))
_PLANNED: Final = (
    node_id,
    broker_id,
    process_roles,
    network.listeners,
    network.advertised_listeners,
    controller_quorum_voters,
    controller_quorum_bootstrap_servers,
)
"""Settings that say what a node is and where: more shards would be at more addresses."""
_SERVICES: Final = (moldau_metrics_listener, moldau_registry_listener, moldau_console_listener)


@dataclass(frozen=True, slots=True)
class OnDisk:
    """What the directories of a host have."""

    shards: int = 0
    """One more than the largest number of a shard; 0 without any."""
    last: str = ""
    """The directory of the shard with the largest number."""
    single: str = ""
    """The directory with the data of a broker without shards."""


@dataclass(frozen=True, slots=True)
class ShardCount:
    """How many shards run, and what the user should know about it."""

    count: int
    note: str = ""
    is_sharded: bool = False
    """Whether data are in folders of shards, also where there is one shard."""


def on_disk(files: Files, settings: Settings) -> OnDisk:
    """Return what is in the directories."""
    shards, last = 0, ""
    for directory in places_of(settings).all:
        names = files.list(directory) if files.exists(directory) else []
        if _FORMATTED in names:
            return OnDisk(single=directory)
        for name in names:
            number = name.removeprefix(FOLDER)
            if name.startswith(FOLDER) and number.isdecimal() and int(number) >= shards:
                shards, last = int(number) + 1, f"{directory}/{name}"
    return OnDisk(shards, last)


def by_cores(cores: int) -> int:
    """Return the shards for a number of cores."""
    return 1 if cores <= _FEW_CORES else min(SHARDS_MAX, cores * 3 // 4)


def shard_count(
    given: int | str | None,
    found: OnDisk,
    cores: int,
    *,
    is_planned: bool,
    free_ports: Callable[[int], int],
    open_port: int | None = None,
) -> ShardCount:
    """Return how many shards run. `is_planned`: see the module; `free_ports(count)` returns for how
    many shards, up to that count, there are ports behind the first one; `open_port` is that first
    one if the network reaches it. Raise ConfigError if data would be left out."""
    if isinstance(given, int):
        _check_whole(given, found)
        fresh = given > found.shards > 0
        note = _grown(found.shards, given) if fresh else ""
        return ShardCount(given, note, is_sharded=given > 1 or found.shards > 0)
    wanted = by_cores(cores)
    if found.single:
        note = (
            f"one shard, as {found.single} was made with one broker: it uses one of {cores} cores"
        )
        return ShardCount(1, note if wanted > 1 and not is_planned else "")
    if found.shards:
        more = f"; --shards {wanted} uses more of the {cores} cores"
        many = "one shard" if found.shards == 1 else f"{found.shards} shards"
        note = f"{many}, as there are data of {found.last}{more}"
        note = note if wanted > found.shards else ""
        return ShardCount(found.shards, note, is_sharded=True)
    if given is None and is_planned:
        return ShardCount(1)
    count = free_ports(wanted)
    if given is None and open_port is not None:
        ports = f"{open_port} to {open_port + count}"  # the last is the controller's
        more = f"in an empty directory --shards auto runs {count}, and takes the ports {ports}"
        return ShardCount(1, f"one shard uses one of {cores} cores: {more}" if count > 1 else "")
    many = "one shard" if count == 1 else f"{count} shards"
    note = f"{many} for {cores} cores: more would need a port that is in use"
    return ShardCount(count, note if count < wanted else "", is_sharded=count > 1)


def is_planned(arguments: Namespace, settings: Settings) -> bool:
    """Whether the user has said what the node is; see the module."""
    if arguments.config is not None or arguments.kafka_environment:
        return True
    if any(settings.source(row).kind in _USER for row in _PLANNED):
        return True
    return not all(each.port for each in read_listeners(settings).bound)


def decided_count(arguments: Namespace, environment: Mapping[str, str]) -> ShardCount:
    """Return how many shards the command runs on this machine."""
    from moldau.runtime.holders import is_port_taken
    from moldau.runtime.process_figures import core_count
    from moldau.runtime.real_files import RealFiles

    files = RealFiles()
    settings = settings_given(
        arguments, environment, files, arguments.listen, is_image=arguments.kafka_environment
    )
    if "broker" not in settings[process_roles]:
        if isinstance(arguments.shards, int) and arguments.shards > 1:
            raise ConfigError(
                "shards are brokers, and this node is only a controller: leave out --shards",
                shards=arguments.shards,
            )
        return ShardCount(1)
    listeners = read_listeners(settings).of_broker
    own = _ports_of_services(arguments, settings)

    def is_free(host: str, port: int) -> bool:
        return port <= _PORT_MAX and port not in own and not is_port_taken(host, port)

    def free_ports(count: int) -> int:
        if count == 1:
            return 1
        for number in range(1, count + 1):  # the last is the controller's
            if not all(is_free(each.host, each.port + number) for each in listeners):
                return max(1, number - 1)
        return count

    return shard_count(
        arguments.shards,
        on_disk(files, settings),
        core_count(),
        is_planned=is_planned(arguments, settings),
        free_ports=free_ports,
        open_port=next((each.port for each in listeners if not is_local(each.host)), None),
    )


def _ports_of_services(arguments: Namespace, settings: Settings) -> set[int]:
    """Return the ports that the node itself takes beside those of its brokers."""
    given = (arguments.metrics, arguments.registry, arguments.console)
    addresses = (*given, *(settings[row] for row in _SERVICES))
    ports = (address.rpartition(":")[2] for address in addresses if address)
    return {int(port) for port in ports if port.isdecimal()}


def _check_whole(count: int, found: OnDisk) -> None:
    if found.single and count > 1:
        raise ConfigError(
            "the directory has the data of a node without shards; give shards another one",
            directory=found.single,
        )
    if found.shards > count:
        raise ConfigError(
            f"there are data of shard {found.shards - 1}: start as many shards as before; "
            "`moldau broker decommission` takes a broker out of the cluster, then its folder "
            "can be removed",
            directory=found.last,
            shards=count,
        )


def _grown(before: int, now: int) -> str:
    new = f"shard {before} is" if now == before + 1 else f"shards {before} to {now - 1} are"
    return f"{new} new: `moldau cluster balance --execute` moves partitions there"
