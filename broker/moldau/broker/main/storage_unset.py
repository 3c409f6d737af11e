"""`moldau storage unset`: delete settings that were set at run time, while no broker runs.

A broker that does not start because of them cannot serve `moldau config unset`. So the node's
controller is opened without a broker, deletes the settings as it would for a client, and is closed.
Kafka's way, `kafka-configs --bootstrap-controller`, needs a running controller; ours may be in the
process that does not start.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from moldau.broker.main.given import add_arguments, settings_given
from moldau.cli.command import Context, Exit

if TYPE_CHECKING:
    from moldau.runtime import Runtime


def add_unset_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of `moldau storage unset`, including the settings of the node."""
    add_arguments(parser)
    parser.add_argument("names", nargs="+", metavar="SETTING", help="what was set at run time")
    parser.add_argument(
        "--all-brokers", action="store_true", help="what was set for all; default: for this one"
    )


def unset(arguments: Namespace, context: Context) -> int:
    """Delete the settings. Raise ConfigError while a broker uses the directory."""
    from moldau.broker.main.offline_controller import take_back
    from moldau.runtime.real import run
    from moldau.runtime.real_files import RealFiles

    settings = settings_given(arguments, context.environment, RealFiles())
    names = list(dict.fromkeys(arguments.names))

    async def main(runtime: Runtime) -> None:
        await take_back(runtime, settings, names, is_of_all=arguments.all_brokers)

    run(main, node="storage")
    for name in names:
        context.out.write(f"unset {name}\n")
    return Exit.DONE
