"""What the brokers of a cluster were given: all settings that are no default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.cli.commands.cluster_connection import on_cluster

if TYPE_CHECKING:
    from argparse import Namespace

    from moldau.cli.command import Context
    from moldau.client import Admin

HIDDEN: Final = "hidden"
"""The value of a secret, which brokers do not tell."""


def given_settings(arguments: Namespace, context: Context) -> dict[int, dict[str, str]]:
    """Return the settings of each broker that is up, by its id."""
    return on_cluster(arguments, context, _described)


async def _described(client: Admin) -> dict[int, dict[str, str]]:
    from moldau.client import Resource, ResourceType

    found = {}
    for broker in (await client.describe_cluster()).brokers:
        entries = await client.describe_configs(Resource(ResourceType.BROKER, str(broker.node_id)))
        found[broker.node_id] = {
            each.name: HIDDEN if each.value is None else each.value
            for each in entries
            if not each.is_default and (each.value is not None or each.is_sensitive)
        }
    return found
