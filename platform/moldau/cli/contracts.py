"""The contracts of the platform's plugin groups: commands, plugins of the client, test brokers,
services of brokers.

Each check loads a plugin as the layer that uses it does, and demands no more than that layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.plugins.contracts import (
    LAYERS,
    Contract,
    ContractBroken,
    check_arguments,
    check_class,
    check_layer,
    check_methods,
)

_SENDS: Final = ("on_send", "on_acknowledgement", "close")
_READS: Final = ("on_consume", "on_commit", "close")


def _layer(loaded: object) -> None:
    check_layer(loaded)


def check_command(loaded: object) -> None:
    """Check that a command has a summary, and adds its arguments to a parser."""
    from io import StringIO

    from moldau.cli.command import Command
    from moldau.cli.parser import Parser

    if isinstance(loaded, type) or not isinstance(loaded, Command):
        raise ContractBroken("a command is an object with summary, configure and run")
    summary: object = loaded.summary
    if not isinstance(summary, str) or not summary.strip():
        raise ContractBroken("the summary of a command is a line of text")
    loaded.configure(Parser(out=StringIO(), prog="moldau"))


def _summaries(loaded: object) -> None:
    """Check that the plugin has a line of text for each name of a command."""
    if not isinstance(loaded, Mapping):
        raise ContractBroken("summaries are a mapping of names of commands to lines of text")
    for name, summary in loaded.items():
        if not isinstance(summary, str) or not summary.strip():
            raise ContractBroken("the summary of a command is a line of text", command=name)


def _assignor(loaded: object) -> None:
    from moldau.client.group.assignors.installed import checked

    check_arguments(loaded)
    assert callable(loaded)
    checked(loaded())


def _serde(loaded: object) -> None:
    """Check that the plugin takes one argument, a `Choice`. What it makes depends on the choice."""
    check_arguments(loaded, None)


def _interceptor(loaded: object) -> None:
    made = check_class(loaded)()
    check_methods(made, *(_SENDS if hasattr(made, "on_send") else _READS))


def _partitioner(loaded: object) -> None:
    made = check_class(loaded)()
    check_methods(made, "partition")
    check_arguments(made.partition, None, None, None, None)


def _embedded_broker(loaded: object) -> None:
    check_arguments(loaded, None, "", {}, "", 0)


def _cluster_node(loaded: object) -> None:
    check_arguments(loaded, None, "", {}, "", print)


def _examination(loaded: object) -> None:
    check_arguments(loaded, {})


def _broker_service(loaded: object) -> None:
    check_arguments(loaded, None, {}, None)


def _segment_format(loaded: object) -> None:
    check_methods(loaded, "segments", "stored_sizes", "opened")


CONTRACTS: Final = (
    Contract(LAYERS, "layers, each with a table of contracts", _layer),
    Contract("moldau.commands", "subcommands of `moldau`", check_command),
    Contract("moldau.command_summaries", "the lines of commands in `moldau help`", _summaries),
    Contract("moldau.assignors", "partition assignors", _assignor),
    Contract("moldau.interceptors", "interceptors of the client", _interceptor),
    Contract("moldau.partitioners", "partitioners of the producer", _partitioner),
    Contract("moldau.serdes", "serializers and deserializers of the client", _serde),
    Contract(
        "moldau.embedded_brokers", "brokers inside a test or another process", _embedded_broker
    ),
    Contract("moldau.broker_services", "services inside a broker's process", _broker_service),
    Contract("moldau.doctor", "findings of layers for `moldau doctor`", _examination),
    Contract("moldau.remote_segments", "the format of remote segments", _segment_format),
    Contract("moldau.cluster_nodes", "nodes of a cluster in virtual time", _cluster_node),
)
