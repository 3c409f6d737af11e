"""The words that may stand at the cursor of a command line.

They come from the parsers of the commands. Names of topics and groups come from the cluster of the
line, if it answers quickly; a person at the Tab key gets no error and does not wait.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import field
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Command, Context
from moldau.deferred import dataclass
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin

GROUP: Final = "moldau.commands"
ASK_S: Final = 1.0
_GLOBAL: Final = {
    "--debug": 0, "--version": 0, "--help": 0, "-h": 0,
    "-b": 1, "--bootstrap": 1, "--bootstrap-server": 1, "--profile": 1,
}  # fmt: skip
"""The options of `moldau` itself, and how many words follow each."""
_CONNECTION: Final = ("bootstrap", "command_config", "profile")
_NAMES_MAX: Final = 10_000


@dataclass
class _Line:
    """What the words before the cursor say."""

    parser: argparse.ArgumentParser
    given: dict[str, str] = field(default_factory=dict)
    """The options of the connection."""
    used: int = 0
    """How many positional words the parser has read."""
    waiting: argparse.Action | None = None
    """The option whose value comes next."""


def candidates(words: Sequence[str], context: Context) -> list[str]:
    """Return the words that may stand in place of the last one, and begin as it does."""
    *before, begun = words or [""]
    given: dict[str, str] = {}
    while before and before[0].startswith("-"):
        name, equals, value = before.pop(0).partition("=")
        if _GLOBAL.get(name) == 1 and not equals:
            if not before:
                return _matching(_profiles(context) if name == "--profile" else (), begun)
            value = before.pop(0)
        if _GLOBAL.get(name) == 1:
            given["profile" if name == "--profile" else "bootstrap"] = value
    names = context.plugins.named(GROUP)
    if before[:1] == ["help"]:
        before = before[1:]
    if not before:
        return _matching(_GLOBAL if begun.startswith("-") else ("help", *names), begun)
    if before[0] not in names:
        return []
    try:
        line = _read(before, context)
        line.given = {**given, **line.given}
        return _matching(_offered(line, begun, context), begun)
    except (MoldauError, OSError, argparse.ArgumentError):
        return []


def _matching(among: Any, begun: str) -> list[str]:
    return sorted({each for each in among if each.startswith(begun)})


def _read(words: Sequence[str], context: Context) -> _Line:
    from moldau.cli.parser import Parser

    command = context.plugins.load(GROUP, words[0])
    parser = Parser(out=StringIO(), prog="moldau")
    parser.add_argument("--debug", action="store_true")
    parser.add_profile()
    if isinstance(command, Command):
        command.configure(parser)
    line = _Line(parser)
    for word in words[1:]:
        _take(line, word)
    return line


def _take(line: _Line, word: str) -> None:
    """Read one word."""
    if line.waiting is not None:
        _keep(line, line.waiting, word)
        line.waiting = None
        return
    if word.startswith("-") and len(word) > 1:
        name, equals, value = word.partition("=")
        option = line.parser._option_string_actions.get(name)
        if option is not None and option.nargs != 0:
            if equals:
                _keep(line, option, value)
            else:
                line.waiting = option
        return
    action = _positional(line)
    if isinstance(action, argparse._SubParsersAction):
        if word in action.choices:
            line.parser, line.used = action.choices[word], 0
        return
    if action is not None and action.nargs not in ("*", "+"):
        line.used += 1


def _keep(line: _Line, option: argparse.Action, value: str) -> None:
    if option.dest in _CONNECTION:
        line.given[option.dest] = value


def _positional(line: _Line) -> argparse.Action | None:
    """Return what the next word is, if it is no option."""
    actions = line.parser._get_positional_actions()
    return actions[line.used] if line.used < len(actions) else None


def _offered(line: _Line, begun: str, context: Context) -> Sequence[str]:
    if line.waiting is None and begun.startswith("-"):
        return [
            name
            for name, action in line.parser._option_string_actions.items()
            if action.help != argparse.SUPPRESS and (name.startswith("--") or len(begun) == 1)
        ]
    action = line.waiting or _positional(line)
    if action is None:
        return ()
    if action.choices is not None:
        return [str(each) for each in action.choices]
    if action.dest == "profile":
        return _profiles(context)
    if _is_of(action, "topic") or _is_of(action, "group"):
        return _asked(line, context, is_topic=_is_of(action, "topic"))
    return ()


def _is_of(action: argparse.Action, kind: str) -> bool:
    if action.metavar == "PATTERN":
        return action.dest == f"{kind}s"
    return isinstance(action.metavar, str) and action.metavar.lower() == kind


def _profiles(context: Context) -> Sequence[str]:
    from moldau.cli.profiles import load, path_of

    path = path_of(context.environment)
    return () if path is None else list(load(path).by_name)


def _asked(line: _Line, context: Context, *, is_topic: bool) -> Sequence[str]:
    """Return the names of topics or groups of the line's cluster; none if it is not quick."""
    from dataclasses import replace

    from moldau.cli.commands.cluster_connection import client_settings
    from moldau.cli.shell import within
    from moldau.client.admin.admin import Admin
    from moldau.runtime.threaded import ThreadedRuntime

    found = argparse.Namespace(
        bootstrap=line.given.get("bootstrap"),
        command_config=line.given.get("command_config"),
        client_settings=[],
    )
    context = replace(context, profile_name=line.given.get("profile"), err=StringIO())
    settings = client_settings(found, context)

    async def ask(runtime: Any) -> list[str]:
        async with Admin(settings, runtime=runtime) as admin:
            return await _names(admin, is_topic=is_topic)

    with ThreadedRuntime("moldau-cli") as threaded:
        names = threaded.run(lambda runtime: within(ASK_S, ask(runtime)))
    return (names or [])[:_NAMES_MAX]


async def _names(admin: Admin, *, is_topic: bool) -> list[str]:
    if is_topic:
        return [each.name for each in await admin.list_topics()]
    return [each.group_id for each in await admin.list_groups()]
