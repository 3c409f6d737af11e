"""`moldau leader`: elect leaders of partitions, preferred or unclean."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import OpenClient, opened_admin
from moldau.cli.output import write_facts, write_lines
from moldau.cli.summaries import SUMMARIES

if TYPE_CHECKING:
    from moldau.client import Admin, TopicPartition
    from moldau.errors.codes import KafkaError


def _add_elect(parser: ArgumentParser) -> None:
    parser.add_argument(
        "partitions",
        metavar="TOPIC[:PARTITION]",
        nargs="*",
        help="a whole topic, or one partition of it; all topics unless some are named",
    )
    parser.add_argument(
        "--path-to-json-file",
        metavar="FILE",
        dest="file",
        help="the partitions, as kafka-leader-election takes them",
    )
    parser.add_argument(
        "--unclean",
        action="store_true",
        help="where no replica in sync is there, elect one that lost records",
    )


def _elect(arguments: Namespace, context: Context) -> int:
    from moldau.protocol.election import Election

    election = Election.UNCLEAN if arguments.unclean else Election.PREFERRED
    named = [_parsed(each) for each in arguments.partitions]
    if arguments.file is not None:
        named += _in_file(arguments.file)
    if arguments.unclean and not named:
        raise UsageError("--unclean loses records: name the partitions")
    with opened_admin(arguments, context) as admin:
        chosen = _chosen(admin, named) if named else None
        results = admin.run(lambda client: client.elect_leaders(chosen, election=election))
    return _write_results(arguments, context, results)


def _chosen(admin: OpenClient[Admin], named: list[tuple[str, int | None]]) -> list[TopicPartition]:
    chosen: list[TopicPartition] = []
    known = admin.run(lambda client: client.partitions(*sorted({topic for topic, _ in named})))
    for topic, number in named:
        found = [each for each in known if each.topic == topic and number in (None, each.partition)]
        if not found:
            raise UsageError(f"{topic} has no partition {number}")
        chosen += found
    return chosen


def _parsed(text: str) -> tuple[str, int | None]:
    topic, colon, number = text.rpartition(":")
    if not colon:
        return text, None
    if not topic or not number.isascii() or not number.isdigit():
        raise UsageError(f"{text!r} is not TOPIC or TOPIC:PARTITION")
    return topic, int(number)


def _in_file(path: str) -> list[tuple[str, int | None]]:
    from moldau.runtime.real_files import RealFiles

    try:
        document: Any = json.loads(RealFiles().read_text(path))
        return [(str(each["topic"]), int(each["partition"])) for each in document["partitions"]]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f'{path} is not {{"partitions": [{{"topic": "...", "partition": 0}}]}}'
        ) from error


def _write_results(
    arguments: Namespace, context: Context, results: dict[TopicPartition, KafkaError | None]
) -> int:
    """Write the results. A partition that needed no election is no failure."""
    from moldau.errors.codes import ErrorCode

    states = {where: _state(error) for where, error in sorted(results.items())}
    facts = [
        {"topic": where.topic, "partition": where.partition, "result": state}
        for where, state in states.items()
    ]
    if states or arguments.json:
        write_facts(context.out, ("TOPIC", "PARTITION", "RESULT"), facts, json=arguments.json)
    else:
        write_lines(context.out, ["every partition is led by its preferred replica"])
    unneeded = ErrorCode.ELECTION_NOT_NEEDED
    failed = [each for each in results.values() if each is not None and each.code != unneeded]
    return Exit.FAILED if failed else Exit.DONE


def _state(error: KafkaError | None) -> str:
    from moldau.errors.codes import ErrorCode

    if error is None:
        return "elected"
    if error.code == ErrorCode.ELECTION_NOT_NEEDED:
        return "no election needed"
    return f"{error.code.name}: {error.reason}" if error.reason else error.code.name


command = ActionCommand(
    SUMMARIES["leader"],
    (
        Action(
            "elect",
            "let preferred replicas lead again",
            _add_elect,
            _elect,
            "Gives leadership to the first replica of each partition, if it is in sync. With "
            "--unclean: to any replica that is alive, where there is no leader.",
        ),
    ),
)
