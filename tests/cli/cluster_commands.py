"""The commands of `moldau` that connect to a cluster by client settings, found through their
parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from io import StringIO

from moldau.cli.application import GROUP
from moldau.cli.command import Command
from moldau.cli.parser import Parser
from moldau.plugins import installed_plugins


def cluster_commands() -> Iterator[str]:
    """Yield the command, or the command and its action, of each parser with `--command-config` or
    `--bootstrap`."""
    for name in sorted(installed_plugins().named(GROUP)):
        command = installed_plugins().load(GROUP, name)
        assert isinstance(command, Command)
        parser = Parser(out=StringIO(), prog=f"moldau {name}")
        command.configure(parser)
        yield from _connected(parser, name)


def _connected(parser: argparse.ArgumentParser, words: str) -> Iterator[str]:
    for each in parser._get_positional_actions():
        if isinstance(each, argparse._SubParsersAction):
            for action, inner in each.choices.items():
                yield from _connected(inner, f"{words} {action}")
            return
    if {"client_settings", "bootstrap"} & {each.dest for each in parser._actions}:
        yield words
