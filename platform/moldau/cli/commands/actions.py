"""Commands whose first word is an action: `moldau topic create`, `moldau group reset`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Any

from moldau.cli.command import Context
from moldau.cli.commands.cluster_connection import add_action_arguments
from moldau.deferred import dataclass


@dataclass(frozen=True, slots=True)
class Action:
    """One action: its arguments, except those of the connection, and the function that runs it.
    `description` is shown in the action's own help if `help` is too short."""

    name: str
    help: str
    add: Callable[[ArgumentParser], None]
    act: Callable[[Namespace, Context], int]
    description: str = ""
    has_cluster: bool = True
    """Whether the action connects to a cluster, and so has the connection arguments."""


@dataclass(frozen=True, slots=True)
class ActionCommand:
    """A command that consists of actions."""

    summary: str
    actions: Sequence[Action]

    def configure(self, parser: ArgumentParser, /) -> None:
        chosen = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        for each in self.actions:
            description = each.description or each.help
            action = chosen.add_parser(each.name, help=each.help, description=description)
            if each.has_cluster:
                add_action_arguments(action)
            each.add(action)
            action.set_defaults(act=each.act)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        act: Any = arguments.act
        return int(act(arguments, context))
