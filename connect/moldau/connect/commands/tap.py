"""`moldau connect tap`: shows the records of a connector as they pass, one JSON line each.

It reads the connector's topics separately, with its own converters and transforms, so it does not
affect the connector. References to config providers are resolved here: `--config` and `--set` name
the providers as for a worker. `--after NAME` shows records after that transform (of a sink).
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.connect_rest import add_url, open_rest
from moldau.connect.commands.check import local_worker
from moldau.connect.commands.worker import add_worker_settings
from moldau.operations.connectors import connector_path

if TYPE_CHECKING:
    from moldau.operations.connectors import Rest


def configure(actions: Any) -> None:
    """Add the action to the parser."""
    parser: ArgumentParser = actions.add_parser(
        "tap",
        help="watch the records of a connector",
        description="Reads the topics of a connector beside it and prints each record as the "
        "connector sees it, as a line of JSON. Ctrl-C ends it.",
    )
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "-b", "--bootstrap", metavar="HOST:PORT", help="brokers; else MOLDAU_BOOTSTRAP"
    )
    parser.add_argument("--after", metavar="TRANSFORM", help="behind this transform; else all")
    parser.add_argument("--before-transforms", action="store_true", help="as consumed")
    parser.add_argument("--from-beginning", action="store_true", help="old records too")
    parser.add_argument("--max", "--count", type=int, metavar="N", help="end after so many")
    add_worker_settings(parser)
    add_url(parser)
    parser.set_defaults(act=tap)


def tap(arguments: Namespace, context: Context) -> int:
    """Print records until Ctrl-C, or until `--max` of them were printed."""
    with open_rest(arguments, context) as rest:
        info = rest.ask("GET", connector_path(arguments.name))
        topics = _topics(rest, info)
        worker = rest.ask("GET", "/v1/worker")["converters"]
    local = local_worker(arguments, context)
    config = _tapped(info["config"], arguments, is_sink=info["type"] == "sink")
    bootstrap = local.get("bootstrap.servers", "localhost:9092")
    _watch((config, {**local, **worker}), (topics, bootstrap), arguments, context)
    return Exit.DONE


def _topics(rest: Rest, info: Mapping[str, Any]) -> list[str]:
    from moldau.connect.task.settings import listed

    topics = listed(info["config"], "topics") if info["type"] == "sink" else []
    if not topics:
        name = info["name"]
        topics = rest.ask("GET", connector_path(name, "/topics"))[name]["topics"]
    if not topics:
        raise UsageError(f"{info['name']} has used no topic yet: there is nothing to watch")
    return list(topics)


def _tapped(config: Mapping[str, str], arguments: Namespace, *, is_sink: bool) -> dict[str, str]:
    """Return the config with only the transforms to apply. A source's were applied already."""
    from moldau.connect.task.settings import listed

    names = listed(config, "transforms")
    if arguments.after is not None:
        if not is_sink or arguments.after not in names:
            known = ", ".join(names) or "none"
            raise UsageError(f"--after: the transforms of this sink are: {known}")
        names = names[: names.index(arguments.after) + 1]
    if arguments.before_transforms or not is_sink:
        names = []
    return {**config, "transforms": ",".join(names)}


def _watch(
    configs: tuple[Mapping[str, str], Mapping[str, str]],
    where: tuple[list[str], str],
    arguments: Namespace,
    context: Context,
) -> None:
    from moldau.client.sync import Consumer
    from moldau.connect.task.watching import line_of, watching_chain

    chain, (topics, bootstrap) = watching_chain(*configs), where
    left = arguments.max
    with Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest" if arguments.from_beginning else "latest",
    ) as consumer:
        consumer.assign(consumer.partitions(*topics))
        while left is None or left > 0:
            for part in consumer.poll(1.0):
                for raw in part.records:
                    context.out.write(line_of(chain, part.topic, part.partition, raw) + "\n")
                    if left is not None:
                        left -= 1
                        if left <= 0:
                            break
                if left is not None and left <= 0:
                    break
            context.out.flush()
