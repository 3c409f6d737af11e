"""`moldau topic alter`: change settings and add partitions, with two requests to the cluster.

Invariant: both requests are validated before the first one is executed, so a mistake changes
nothing. If the second fails all the same, the error says what the first has done.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import assignments, opened_admin
from moldau.cli.commands.setting_names import check_known
from moldau.cli.names import name_of, topic_name
from moldau.cli.numbers import INT32_MAX, whole
from moldau.cli.output import write_json

if TYPE_CHECKING:
    from moldau.client import Admin


def add_alter(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="TOPIC", type=topic_name)
    parser.add_argument(
        "-p", "--partitions", type=whole(1, INT32_MAX), help="how many it shall have in all"
    )
    parser.add_argument("-c", "--config", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument(
        "--unset", action="append", default=[], metavar="NAME", type=name_of("setting")
    )


def alter(arguments: Namespace, context: Context) -> int:
    """Alter the settings first, then the partitions."""
    if arguments.partitions is None and not arguments.config and not arguments.unset:
        raise UsageError("nothing to alter: give --partitions, --config or --unset")
    set_to = assignments(arguments.config)
    both = sorted(set_to.keys() & set(arguments.unset))
    if both:
        raise UsageError(f"{both[0]} is both set and unset")
    unset = list(dict.fromkeys(arguments.unset))
    with opened_admin(arguments, context) as admin:
        admin.run(lambda client: _alter(client, arguments, set_to, unset))
    if arguments.json:
        write_json(context.out, {"altered": arguments.name})
    else:
        context.out.write(f"altered {arguments.name}\n")
    return Exit.DONE


async def _alter(
    client: Admin, arguments: Namespace, set_to: dict[str, str], unset: list[str]
) -> None:
    from moldau.client import Resource, ResourceType
    from moldau.errors.codes import KafkaError

    topic, count = arguments.name, arguments.partitions
    resource = Resource(ResourceType.TOPIC, topic)
    settings = [*set_to, *unset]
    await check_known(client, resource, unset)
    if settings and count is not None:
        await client.alter_configs(resource, set_to=set_to, unset=unset, validate_only=True)
        await client.create_partitions(topic, count, validate_only=True)
    if settings:
        await client.alter_configs(resource, set_to=set_to, unset=unset)
    if count is None:
        return
    try:
        await client.create_partitions(topic, count)
    except KafkaError as error:
        if not settings:
            raise
        done = f"the settings ({', '.join(settings)}) were altered, the partitions were not"
        told = f"{done}: {error.reason}" if error.reason else done
        raise KafkaError(error.code, told, **error.context) from error
