"""`moldau connect ACTION`. The import of this module is fast: each action imports what it needs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from moldau.cli.command import Context
from moldau.connect.commands import change, check, dead_letters, status, tap, worker
from moldau.connect.commands.summaries import SUMMARIES


class ConnectCommand:
    """The command with all actions."""

    summary = SUMMARIES["connect"]

    def configure(self, parser: ArgumentParser, /) -> None:
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        for each in (worker, status, change, check, tap, dead_letters):
            each.configure(actions)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        return int(arguments.act(arguments, context))


command = ConnectCommand()
