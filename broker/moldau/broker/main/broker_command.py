"""`moldau broker start`: a broker in this process, until a signal ends it."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace

from moldau.broker.main.given import add_arguments
from moldau.broker.main.summaries import SUMMARIES
from moldau.cli.command import Context
from moldau.cli.commands.cluster_connection import add_action_arguments
from moldau.cli.log_format import add_log_format
from moldau.cli.numbers import whole
from moldau.cli.otlp_options import add_otlp_option
from moldau.cli.output import write_lines

AUTO = "auto"
SHARDS_MAX = 64
_LEVELS = ("trace", "debug", "info", "warn", "error", "fatal")


_LEAVING = {
    "drain": "move all replicas of a broker to others",
    "decommission": "drain a broker, wait until it is stopped, and forget it",
}


class BrokerCommand:
    """The `broker` command. It imports nothing that a broker needs before one starts."""

    summary = SUMMARIES["broker"]

    def configure(self, parser: ArgumentParser, /) -> None:
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        for name, words in _LEAVING.items():
            _add_drain_arguments(actions.add_parser(name, help=words, description=f"{words}."))
        start = actions.add_parser(
            "start",
            help="run a broker and controller in this process",
            description="Runs one node. Without --config: on localhost:9092, with its data in the "
            "user's data directory, which is formatted if it is empty.",
        )
        add_arguments(start)
        start.add_argument(
            "--listen",
            metavar="[HOST:]PORT",
            help="where clients connect; no host before the colon means every address",
        )
        start.add_argument(
            "--insecure",
            action="store_true",
            help="let other machines reach listeners without logins and encryption",
        )
        start.add_argument(
            "--metrics",
            metavar="[HOST:]PORT",
            help="serve /metrics for Prometheus, /healthz and /readyz there",
        )
        add_otlp_option(start)
        start.add_argument(
            "--registry",
            metavar="HOST:PORT",
            help="serve a Schema Registry of the cluster there, in this process",
        )
        start.add_argument(
            "--console",
            metavar="HOST:PORT",
            help="serve the read-only console of the cluster there, in this process",
        )
        start.add_argument(
            "--cluster-id",
            metavar="ID",
            help="format empty directories for that cluster; the settings name its voters",
        )
        start.add_argument(
            "--kafka-environment",
            action="store_true",
            help="read KAFKA_* variables, CLUSTER_ID and /mnt/shared/config/server.properties as "
            "the image apache/kafka does; --data holds where they name no directory",
        )
        start.add_argument(
            "--shards",
            type=_shards,
            metavar="N",
            help="run N brokers of the cluster on this host, a process each, with ports and node "
            "ids in a row; auto: as many as the data have, or three for four cores (default: auto "
            "for a node of this machine alone that is described by no setting, otherwise 1)",
        )
        start.add_argument("--shard", type=whole(0, SHARDS_MAX), default=None, help=SUPPRESS)
        start.add_argument("--log-level", choices=_LEVELS, default="info", help="default: info")
        add_log_format(start)
        start.add_argument("--debug", action="store_true", default=SUPPRESS, help=SUPPRESS)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        if arguments.action in _LEAVING:
            from moldau.cli.commands import broker_drain

            act = broker_drain.drain if arguments.action == "drain" else broker_drain.decommission
            return act(arguments, context)
        if arguments.kafka_environment:
            from moldau.broker.main.image_environment import cluster_of

            arguments.cluster_id = arguments.cluster_id or cluster_of(context.environment)
        from moldau.broker.main.process import run_broker

        if arguments.shard is None:
            from moldau.broker.main.shard_count import decided_count

            decided = decided_count(arguments, context.environment)
            if decided.note:
                write_lines(context.out, [decided.note])
                context.out.flush()
            arguments.shards = decided.count
            if decided.is_sharded:
                from moldau.broker.main.shard_supervisor import run_shards

                return run_shards(arguments, context)
        return run_broker(arguments, context)


def _shards(text: str) -> int | str:
    """Parse the value of `--shards`."""
    return text if text == AUTO else whole(1, SHARDS_MAX)(text)


def _add_drain_arguments(parser: ArgumentParser) -> None:
    """Add the arguments that `drain` and `decommission` share."""
    add_action_arguments(parser)
    parser.add_argument("broker", metavar="BROKER", type=whole(0, 2**31 - 1))
    parser.add_argument(
        "--to", metavar="ID,...", help="the brokers that get its replicas (default: all others)"
    )
    parser.add_argument(
        "--throttle",
        type=whole(1, 2**63 - 1),
        metavar="BYTES",
        help="a second that a broker sends or takes for it",
    )
    parser.add_argument("--dry-run", action="store_true", help="only write the plan")


command = BrokerCommand()
