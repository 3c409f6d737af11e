"""One command, run by itself in this process."""

from __future__ import annotations

from argparse import ArgumentParser
from io import StringIO

from moldau.cli.command import Command, Context, Exit, UsageError
from moldau.errors import ConfigError
from moldau.plugins import installed_plugins


def command_of(command: Command, *words: str) -> tuple[int, str, str]:
    """Run a command by itself, whether it is installed or not."""
    parser, out, err = ArgumentParser(), StringIO(), StringIO()
    command.configure(parser)
    try:
        code = command.run(parser.parse_args(words), Context(out, err, {}, installed_plugins))
    except (UsageError, ConfigError) as error:
        return Exit.MISUSED, out.getvalue(), str(error)
    return code, out.getvalue(), err.getvalue()


def run(command: Command, *words: str) -> tuple[int, str]:
    code, out, err = command_of(command, *words)
    assert err == ""
    return code, out
