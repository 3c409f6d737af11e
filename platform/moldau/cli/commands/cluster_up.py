"""`moldau cluster up`: run several nodes on this machine, until Ctrl-C.

A node that fails is restarted. A node that was stopped on purpose, as for `moldau broker
decommission`, stays stopped. One that `moldau cluster roll` has marked is stopped and started.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from shlex import quote
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.numbers import whole
from moldau.cli.output import write_lines
from moldau.runtime.backoff import Backoff
from moldau.runtime.restarts import RestartPolicy, Restarts

if TYPE_CHECKING:
    from moldau.testing.cluster import Cluster

PORT: Final = 9092
NODES_MAX: Final = 9
LOOK_SECONDS: Final = 0.5
RESTARTS: Final = RestartPolicy(Backoff(1_000, 30_000), steady_ms=10_000, failures_max=6)
PREDECESSORS_SECONDS: Final = 30.0
"""How long the nodes of a cluster that was killed may take to close."""


def add_up(parser: ArgumentParser) -> None:
    """Add the arguments of the cluster: nodes, controllers, port, data and settings."""
    parser.add_argument(
        "--nodes", type=whole(1, NODES_MAX), default=3, help="how many (default: 3)"
    )
    parser.add_argument(
        "--controllers",
        type=whole(0, NODES_MAX),
        default=0,
        help="nodes that are only controllers; without them each broker is one too",
    )
    parser.add_argument(
        "--port",
        type=whole(1, 65_535 - 3 * NODES_MAX),
        default=PORT,
        help=f"of the first broker (default: {PORT}); the others have the next ones, and the "
        "controllers those behind",
    )
    parser.add_argument(
        "--secure",
        action="store_true",
        help="TLS, logins and access rules: clients log in by SCRAM, and nodes show each other "
        "certificates; the files are in DIR/secured",
    )
    parser.add_argument("--data", metavar="DIR", required=True, help="where everything is kept")
    parser.add_argument(
        "--set",
        dest="assignments",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of every node, by Kafka's name; may be repeated",
    )
    parser.add_argument(
        "--set-node",
        dest="own_assignments",
        action="append",
        default=[],
        metavar="ID:KEY=VALUE",
        help="a setting of one node; may be repeated",
    )
    parser.add_argument(
        "--rack",
        dest="racks",
        action="append",
        default=[],
        metavar="NAME",
        help="the racks of the brokers, in turn; may be repeated",
    )
    parser.add_argument(
        "--first-id", type=whole(0, 91), default=1, metavar="N", help="of the brokers (default: 1)"
    )
    parser.add_argument(
        "--advertise",
        metavar="HOST",
        help="where clients on other machines find the brokers, which then listen at every "
        "address; without --secure they take every client that reaches them",
    )


def run_up(arguments: Namespace, context: Context) -> int:
    """Run the nodes until Ctrl-C, SIGTERM, or the end of all nodes."""
    from moldau.config import load_assignments
    from moldau.runtime.places import absolute_path
    from moldau.runtime.signals import interrupted_by_sigterm
    from moldau.testing.cluster import Cluster, Layout

    given = load_assignments(arguments.assignments, "--set")
    own = _own_settings(arguments.own_assignments)
    cluster = Cluster(
        arguments.nodes,
        controllers=arguments.controllers,
        directory=absolute_path(arguments.data),
        port=arguments.port,
        settings={each.name: str(each.value) for each in given},
        layout=Layout(arguments.racks, arguments.first_id, arguments.advertise, arguments.secure),
    )
    for node_id in own:
        if node_id not in cluster.node_ids:
            ids = ", ".join(map(str, sorted(cluster.node_ids)))
            raise UsageError(f"--set-node {node_id}: there is no such node; there are {ids}")
    cluster.own_settings.update(own)
    try:
        with interrupted_by_sigterm():
            _start(cluster, context)
            return _watch(cluster, context)
    except KeyboardInterrupt:
        _report(context, "stops all nodes")
        return Exit.DONE
    finally:
        cluster.close()


def _own_settings(words: list[str]) -> dict[int, dict[str, str]]:
    """Return the settings of single nodes, by node."""
    from moldau.config import load_assignments

    found: dict[int, dict[str, str]] = {}
    for word in words:
        number, colon, assignment = word.partition(":")
        if not (colon and number.isascii() and number.isdecimal()):
            raise UsageError(f"--set-node {word}: give a node, a colon and a setting, 2:NAME=VALUE")
        for each in load_assignments([assignment], "--set-node"):
            found.setdefault(int(number), {})[each.name] = str(each.value)
    return found


def _await_predecessors(cluster: Cluster, context: Context) -> None:
    """Wait until no other process uses the directories of the nodes, as those of a cluster that was
    killed a moment ago, which still close. Raise ClusterFailed if they are used for long."""
    from moldau.runtime.node_processes import monotonic_s, pause_s
    from moldau.testing.cluster import occupants_of
    from moldau.testing.cluster_directory import ClusterFailed

    deadline_s = monotonic_s() + PREDECESSORS_SECONDS
    named: set[int] = set()
    while occupants := occupants_of(cluster):
        for node_id, occupant in occupants.items():
            by = f" ({occupant})" if occupant else ""
            used = f"another process{by} uses {cluster.data_of(node_id)}"
            if monotonic_s() > deadline_s:
                raise ClusterFailed(f"node {node_id}: {used}: stop it, or give another --data")
            if node_id not in named:
                named.add(node_id)
                _report(context, f"node {node_id} waits: {used}")
        pause_s(LOOK_SECONDS)


def _start(cluster: Cluster, context: Context) -> None:
    cluster.prepare()
    _await_predecessors(cluster, context)
    for node_id in cluster.node_ids:
        cluster.launch(node_id)
    for node_id in cluster.node_ids:
        cluster.await_up(node_id)
        _report(
            context,
            f"node {node_id} is up at {cluster.address_of(node_id)}, "
            f"data {cluster.data_of(node_id)}, log {cluster.log_path_of(node_id)}",
        )
    cluster.finish_up()
    where = f"--bootstrap {cluster.bootstrap_servers}"
    if cluster.security is not None:
        where = f"--command-config {quote(cluster.security.client_path)}"
        kcat = quote(f"{cluster.security.folder}/kcat.conf")
        _report(context, f"clients log in as {cluster.security.admin}; kcat -F {kcat} -L")
    _report(context, f"Try: moldau cluster describe {where}\nCtrl-C stops all.")


def _watch(cluster: Cluster, context: Context) -> int:
    """Report each node that ends, and restart the failed ones. Return when none is left."""
    from moldau.runtime.node_processes import pause_s
    from moldau.testing.cluster_directory import RestartMarks

    restarts = {node_id: Restarts(RESTARTS) for node_id in cluster.node_ids}
    running = set(cluster.node_ids)
    starting: set[int] = set()
    stopping: set[int] = set()
    stopped: set[int] = set()
    marks = RestartMarks(cluster.directory)
    for node_id in running:
        restarts[node_id].on_up(_now_ms())
        marks.remove(node_id)  # of a roll that ended before this start
    while running or any(each.due_ms is not None for each in restarts.values()):
        pause_s(LOOK_SECONDS)
        for node_id in sorted(starting):
            if cluster.has_come_up(node_id):
                starting.discard(node_id)
                marks.remove(node_id)
                restarts[node_id].on_up(_now_ms())
                _report(context, f"node {node_id} is up again at {cluster.address_of(node_id)}")
        for node_id in sorted(running - starting - stopping):
            if marks.has(node_id):
                _report(context, f"node {node_id} is restarted, as a roll asks")
                cluster.begin_stop(node_id)
                stopping.add(node_id)
        for node_id in sorted(running):
            code = cluster.exit_code(node_id)
            if code is None:
                continue
            running.discard(node_id)
            starting.discard(node_id)
            if not code:
                stopped.add(node_id)
            if node_id not in stopping:
                pause_ms = restarts[node_id].on_failure(_now_ms()) if code else None
                _report(context, _end_of(cluster, node_id, code, pause_ms))
        for node_id, each in restarts.items():
            is_rolled = node_id in stopped | stopping - running and marks.has(node_id)
            if each.take_due(_now_ms()) or is_rolled:
                cluster.launch(node_id)
                stopping.discard(node_id)
                stopped.discard(node_id)
                running.add(node_id)
                starting.add(node_id)
    _report(context, "no node is left")
    return Exit.FAILED


def _end_of(cluster: Cluster, node_id: int, code: int, pause_ms: int | None) -> str:
    """Return the lines that report the end of a node, and whether it is restarted."""
    from moldau.runtime.node_processes import signal_name

    by_hand = f"moldau broker start --config {quote(cluster.settings_path_of(node_id))}"
    if code == 0:
        return (
            f"node {node_id} was stopped, and stays so; to start it by hand (and to stop it by "
            f"hand later): {by_hand}"
        )
    how = f"ended with code {code}" if code > 0 else f"was killed by {signal_name(-code)}"
    said = f": {cluster.last_line_of(node_id)}" if code > 0 else ""
    log = cluster.log_path_of(node_id)
    if pause_ms is not None:
        return f"node {node_id} {how}, is started again in {pause_ms / 1000:.0f} s; see {log}{said}"
    return (
        f"node {node_id} {how}, {RESTARTS.failures_max} times in a row, and stays so; "
        f"see {log}{said}\n"
        f"When that is repaired: {by_hand}"
    )


def _now_ms() -> int:
    from moldau.runtime.node_processes import monotonic_s

    return int(1000 * monotonic_s())


def _report(context: Context, text: str) -> None:
    write_lines(context.out, text.split("\n"))
    context.out.flush()
