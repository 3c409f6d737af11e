"""Commands that behave and misbehave, for the frame to run."""

from __future__ import annotations

import signal
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass

from moldau.cli.command import Context, Exit
from moldau.config import Secret, Setting, SettingTable, load_assignments
from moldau.errors import ConfigError, CorruptLog


@dataclass
class Scripted:
    """Does what it was made to do."""

    act: Callable[[Namespace, Context], int]
    summary: str = "A scripted command."

    def configure(self, parser: ArgumentParser, /) -> None:
        parser.add_argument("words", nargs="*", help="some words")
        parser.add_argument("--loud", action="store_true", help="shout")

    def run(self, arguments: Namespace, context: Context, /) -> int:
        return self.act(arguments, context)


def _echo(arguments: Namespace, context: Context) -> int:
    text = " ".join(arguments.words)
    context.out.write(f"{text.upper() if arguments.loud else text}\n")
    return Exit.DONE


def _corrupt(arguments: Namespace, context: Context) -> int:
    raise CorruptLog("bad checksum", file="0.log", position=17)


def _misconfigured(arguments: Namespace, context: Context) -> int:
    raise ConfigError("no such listener", listener="x")


def _settings(arguments: Namespace, context: Context) -> int:
    table = SettingTable([Setting("ssl.key.password", Secret, None, "A password.")])
    table.resolve(load_assignments(arguments.words))
    return Exit.DONE


def _missing_file(arguments: Namespace, context: Context) -> int:
    raise FileNotFoundError(2, "No such file or directory", "a.properties")


def _refused(arguments: Namespace, context: Context) -> int:
    raise ConnectionRefusedError(111, "Connection refused")


def _bug(arguments: Namespace, context: Context) -> int:
    raise KeyError("surprise")


def _halfway(arguments: Namespace, context: Context) -> int:
    raise ModuleNotFoundError("No module named 'crc32c'", name="crc32c")


def _interrupted(arguments: Namespace, context: Context) -> int:
    raise KeyboardInterrupt


def _flood(arguments: Namespace, context: Context) -> int:
    for number in range(200_000):
        context.out.write(f"line {number}\n")
    return Exit.DONE


def _waiting(arguments: Namespace, context: Context) -> int:
    context.out.write("ready\n")
    context.out.flush()
    signal.pause()
    return Exit.DONE


class Nested:
    """Has subcommands of its own."""

    summary = "Creates and deletes."

    def configure(self, parser: ArgumentParser, /) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="create one")
        create.add_argument("--partitions", type=int, default=1)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        context.out.write(f"{arguments.action} {arguments.partitions}\n")
        return Exit.DONE


echo = Scripted(_echo, "Says it again.")
corrupt = Scripted(_corrupt)
misconfigured = Scripted(_misconfigured)
settings = Scripted(_settings)
missing_file = Scripted(_missing_file)
refused = Scripted(_refused)
bug = Scripted(_bug)
halfway = Scripted(_halfway)
interrupted = Scripted(_interrupted)
flood = Scripted(_flood)
waiting = Scripted(_waiting)
nested = Nested()
no_command = object()


class Untold:
    """A command that fails when it is asked what it does."""

    @property
    def summary(self) -> str:
        raise SystemExit("nobody knows")

    def configure(self, parser: ArgumentParser, /) -> None:
        """Nothing."""

    def run(self, arguments: Namespace, context: Context, /) -> int:
        return Exit.DONE


untold = Untold()


SUMMARIES = {"never": "It is never imported.", "echo": "The line of another package."}
