"""`moldau cluster up`: several nodes on this machine, until Ctrl-C."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit
from moldau.cli.numbers import whole

if TYPE_CHECKING:
    from moldau.testing.cluster import Cluster

PORT: Final = 9092
NODES_MAX: Final = 9
LOOK_SECONDS: Final = 0.5


def add_up(parser: ArgumentParser) -> None:
    """What a cluster can be told."""
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
        type=whole(1, 65_535 - 2 * NODES_MAX),
        default=PORT,
        help=f"of the first broker (default: {PORT}); the others have the next ones, and the "
        "controllers those behind",
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


def run_up(arguments: Namespace, context: Context) -> int:
    """Until Ctrl-C, SIGTERM, or the end of all nodes."""
    from moldau.config import load_assignments
    from moldau.runtime.places import absolute_path
    from moldau.runtime.signals import interrupted_by_sigterm
    from moldau.testing.cluster import Cluster

    given = load_assignments(arguments.assignments, "--set")
    cluster = Cluster(
        arguments.nodes,
        controllers=arguments.controllers,
        directory=absolute_path(arguments.data),
        port=arguments.port,
        settings={each.name: str(each.value) for each in given},
    )
    try:
        with interrupted_by_sigterm():
            _start(cluster, context)
            return _watch(cluster, context)
    except KeyboardInterrupt:
        _tell(context, "stops all nodes")
        return Exit.DONE
    finally:
        cluster.close()


def _start(cluster: Cluster, context: Context) -> None:
    cluster.prepare()
    for node_id in cluster.node_ids:
        cluster.launch(node_id)
    for node_id in cluster.node_ids:
        cluster.await_up(node_id)
        _tell(
            context,
            f"node {node_id} is up at {cluster.address_of(node_id)}, "
            f"data {cluster.data_of(node_id)}, log {cluster.log_path_of(node_id)}",
        )
    _tell(
        context,
        f"Try: moldau cluster describe --bootstrap {cluster.bootstrap_servers}\nCtrl-C stops all.",
    )


def _watch(cluster: Cluster, context: Context) -> int:
    """A node that ends is told of; the others go on."""
    from moldau.runtime.node_processes import pause_s

    running = set(cluster.node_ids)
    while running:
        pause_s(LOOK_SECONDS)
        for node_id in sorted(running):
            code = cluster.exit_code(node_id)
            if code is not None:
                running.discard(node_id)
                _tell(
                    context,
                    f"node {node_id} ended with code {code}; see {cluster.log_path_of(node_id)}",
                )
    return Exit.FAILED


def _tell(context: Context, text: str) -> None:
    context.out.write(f"{text}\n")
    context.out.flush()
