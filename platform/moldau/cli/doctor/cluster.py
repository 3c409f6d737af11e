"""Look at a cluster as its clients do: is each address that brokers advertise reached from here?

A client asks any address for the cluster, and then connects to the addresses in the answer. So a
cluster of which the first address works may still be out of reach: its brokers advertise a name
that only their own network knows, or `localhost`. `look` asks, `cluster_findings` judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from moldau.cli.doctor.finding import Finding, ok, problem, warning
from moldau.deferred import dataclass
from moldau.errors.codes import KafkaError

if TYPE_CHECKING:
    from moldau.client import Admin
    from moldau.link.addresses import Address
    from moldau.runtime import Runtime

CLOCK_MS_MAX: Final = 1_000
_METADATA: Final = "metadata.version"
_ADVERTISED: Final = (
    "set advertised.listeners in the settings of broker {node} to an address that this machine "
    "reaches, as advertised.listeners=PLAINTEXT://THIS-NAME:{port} (a container: "
    "KAFKA_ADVERTISED_LISTENERS), and restart it"
)

_FENCED: Final = "is fenced: it is down, or the controller does not hear it"
_FENCED_WHY: Final = "it leads no partition, and its replicas are out of sync"
_FENCED_CURE: Final = (
    "start it, or look at its log; one that is not to return: moldau broker decommission"
)


@dataclass(frozen=True, slots=True)
class SeenBroker:
    """One broker by the address that it advertises: how long the connection took, or its error."""

    node_id: int
    address: Address
    seconds: float
    error: str | None
    levels: Mapping[str, tuple[int, int]]
    """The lowest and highest level that it supports of each feature."""


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """A cluster from this machine. `clock_ms` is how far the controller's clock is ahead of ours;
    None if nothing was found out. `round_trip_ms` bounds its error."""

    cluster_id: str | None
    bootstrap: str
    brokers: Sequence[SeenBroker]
    features: Mapping[str, int]
    clock_ms: float | None
    round_trip_ms: float
    fenced: Sequence[int] = ()
    """The brokers that the controller does not hear."""


async def look(admin: Admin, runtime: Runtime, bootstrap: str) -> SeenCluster:
    """Ask the cluster, and connect to every address that it advertises. Raise KafkaError if no
    address of `bootstrap` answers."""
    from moldau.client.admin.requests import at_once

    described = await admin.describe_cluster(include_fenced=True)
    by_id = {each.node_id: each for each in described.brokers}

    async def connect(node_id: int) -> SeenBroker:
        begun = runtime.clock.monotonic()
        levels = await admin.supported_features(node_id)
        taken = runtime.clock.monotonic() - begun
        return SeenBroker(node_id, by_id[node_id].address, taken, None, levels)

    answers = await at_once(by_id, connect)
    brokers = [
        SeenBroker(node_id, by_id[node_id].address, 0.0, _reason(each), {})
        if isinstance(each, KafkaError)
        else each
        for node_id, each in answers.items()
    ]
    features = await admin.describe_features()
    ahead, taken = await _clock(admin, runtime)
    fenced = [each.node_id for each in described.fenced]
    return SeenCluster(described.cluster_id, bootstrap, brokers, features, ahead, taken, fenced)


async def _clock(admin: Admin, runtime: Runtime) -> tuple[float | None, float]:
    """Return how many ms the active controller's clock is ahead, and how long the answer took: in
    a description of the quorum, the leader stands with its own time."""
    clock = runtime.clock
    begun, before = clock.monotonic(), clock.wall_ms()
    try:
        quorum = await admin.describe_quorum()
    except KafkaError:
        return None, 0.0
    taken = (clock.monotonic() - begun) * 1000
    told = [each.last_caught_up_ms for each in quorum.voters if each.node_id == quorum.leader_id]
    if not told or told[0] <= 0:
        return None, taken
    return told[0] - (before + taken / 2), taken


def cluster_findings(seen: SeenCluster) -> list[Finding]:
    """Judge addresses, versions and the clock."""
    at = f"one of {seen.bootstrap}" if "," in seen.bootstrap else seen.bootstrap
    found = [ok("cluster", f"{seen.cluster_id or 'without an id'}, reached at {at}")]
    found += [advertised(each, seen.bootstrap) for each in seen.brokers]
    found += [problem(f"broker {each}", _FENCED, _FENCED_WHY, _FENCED_CURE) for each in seen.fenced]
    reached = [each for each in seen.brokers if each.error is None]
    found += [versions(reached)] if reached else []
    return [*found, features(seen), cluster_clock(seen)]


def advertised(broker: SeenBroker, bootstrap: str) -> Finding:
    """Judge the address that one broker advertises."""
    check, found = f"broker {broker.node_id}", f"advertises {broker.address}"
    cure = _ADVERTISED.format(node=broker.node_id, port=broker.address.port)
    is_own = _is_own(broker.address.host)
    others = [each for each in bootstrap.split(",") if not _is_own(_host(each))]
    if broker.error is not None:
        why = "clients connect to the address that a broker advertises, whatever they began with"
        if is_own and others:
            why += "; this one is the client's own machine"
        return problem(check, f"{found}: {broker.error}", why, cure)
    if is_own and others:
        why = "clients on other machines connect to themselves; what answered may be another broker"
        return problem(check, found, why, cure)
    return ok(check, f"{found}, reached in {broker.seconds * 1000:.0f} ms")


def versions(reached: Sequence[SeenBroker]) -> Finding:
    """Judge whether the brokers that were reached know the same levels of features."""
    by_levels: dict[tuple[tuple[str, tuple[int, int]], ...], list[int]] = {}
    for each in reached:
        by_levels.setdefault(tuple(sorted(each.levels.items())), []).append(each.node_id)
    if len(by_levels) == 1:
        return ok("versions", f"all brokers that were reached ({len(reached)}) know the same")
    groups = " and ".join(",".join(map(str, each)) for each in by_levels.values())
    return warning(
        "versions",
        f"brokers {groups} know different features",
        "a cluster of two versions is for the time of an upgrade",
        "moldau cluster roll upgrades the others (docs/operations.md)",
    )


def features(seen: SeenCluster) -> Finding:
    """Say the level of the metadata, and whether all brokers know a higher one."""
    level = seen.features.get(_METADATA)
    if level is None:
        return ok("features", "the cluster has none (Kafka before 3.3, or ZooKeeper)")
    known = [each.levels[_METADATA][1] for each in seen.brokers if _METADATA in each.levels]
    found = f"{_METADATA} {level}"
    if known and min(known) > level:
        found += f", and {min(known)} is possible: moldau cluster features --upgrade"
    return ok("features", found)


def cluster_clock(seen: SeenCluster) -> Finding:
    """Judge the clock of the active controller beside this machine's."""
    check, ahead = "cluster clock", seen.clock_ms
    if ahead is None:
        return ok(check, "not known (it takes DESCRIBE on the cluster, and controllers by Raft)")
    found = f"{ahead:+.0f} ms from this machine's (give or take {seen.round_trip_ms / 2:.0f})"
    if abs(ahead) <= CLOCK_MS_MAX + seen.round_trip_ms:
        return ok(check, found)
    return warning(
        check,
        found,
        "timestamps of records, retention by time and tokens are read by both clocks",
        "on the machine that is wrong: sudo timedatectl set-ntp true, or install chrony",
    )


def not_examined(error: str) -> Finding:
    """The finding if the client cannot be imported."""
    why = "the client needs libraries that do not work here"
    return problem("cluster", f"not looked at: {error}", why, "cure the libraries first")


def unreached(bootstrap: str, error: KafkaError) -> Finding:
    """The finding if no address answers at all."""
    return problem(
        "cluster",
        f"{bootstrap}: {_reason(error)}",
        "a client begins with one of these addresses",
        "give the address of a broker that runs, as -b HOST:9092; for TLS and logins "
        "--command-config FILE",
    )


def _reason(error: KafkaError) -> str:
    why = error.context.get("why") or error.context.get("tried")
    if isinstance(why, Mapping):
        why = "; ".join(f"{address}: {each}" for address, each in why.items())
    return f"{error.reason}: {why}" if why else error.reason


def _host(address: str) -> str:
    return address.rpartition("://")[2].rpartition(":")[0].strip().strip("[]")


def _is_own(host: str) -> bool:
    """Whether this address means the machine that uses it, or no machine."""
    if host.lower() == "localhost":
        return True
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return found.is_loopback or found.is_unspecified
