"""What `moldau` can be told, read from the parsers of its commands.

The man pages and docs/commands.md are made of this, so neither can say what a parser does not. The
texts are our own: the usage lines of argparse differ between versions of Python.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, Final

from moldau.cli.application import GROUP
from moldau.cli.command import Command
from moldau.cli.parser import Parser
from moldau.plugins import Plugins

_REPEATED: Final = 3
"""An option that as many sections have is told once for all of them."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: how it is written, and its help."""

    written: str
    help: str
    is_option: bool


@dataclass(frozen=True, slots=True)
class Section:
    """One command line: `moldau topic create`."""

    words: str
    synopsis: str
    about: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Manual:
    """One command with all its actions."""

    name: str
    summary: str
    sections: tuple[Section, ...]

    def shared(self) -> tuple[Argument, ...]:
        """The options that many of its sections have."""
        return shared(self.sections, _REPEATED)


def shared(sections: Sequence[Section], at_least: int) -> tuple[Argument, ...]:
    """Return the options that so many sections have, in the order of their first use."""
    counted = Counter(each for section in sections for each in section.arguments if each.is_option)
    return tuple(each for each, times in counted.items() if times >= at_least)


def manuals(plugins: Plugins) -> list[Manual]:
    """Return those of all installed commands, by name. A command that cannot be loaded raises."""
    found = []
    for name in sorted(plugins.named(GROUP)):
        command = plugins.load(GROUP, name)
        assert isinstance(command, Command)
        parser = Parser(out=StringIO(), prog=f"moldau {name}", description=command.summary)
        command.configure(parser)
        found.append(Manual(name, command.summary, tuple(_sections(parser, command.summary))))
    return found


def _sections(parser: argparse.ArgumentParser, about: str) -> Iterator[Section]:
    """Yield the parser's section and those of its actions, which come after it."""
    chosen = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    plain = [each for each in parser._actions if _is_told(each)]
    if plain or not chosen:
        yield _section(parser, about, plain, chosen)
    for each in chosen:
        helps = {str(choice.dest): str(choice.help or "") for choice in each._choices_actions}
        for name, action in each.choices.items():
            yield from _sections(action, str(action.description or helps.get(name, "")))


def _is_told(action: argparse.Action) -> bool:
    is_chooser = isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
    return not is_chooser and action.help != argparse.SUPPRESS


def _section(
    parser: argparse.ArgumentParser,
    about: str,
    told: Sequence[argparse.Action],
    chosen: Sequence[argparse.Action],
) -> Section:
    needed = [each for each in told if each.option_strings and each.required]
    words = [parser.prog]
    if len(needed) < sum(bool(each.option_strings) for each in told):
        words.append("[OPTION ...]")
    words += [f"{each.option_strings[-1]} {_value(each)}".rstrip() for each in needed]
    words += [_placed(each) for each in told if not each.option_strings]
    words += [f"{each.metavar or 'ACTION'} ..." for each in chosen]
    arguments = tuple(_argument(parser, each) for each in told)
    return Section(parser.prog, " ".join(words), about, arguments)


def _argument(parser: argparse.ArgumentParser, action: argparse.Action) -> Argument:
    if action.option_strings:
        written = ", ".join(action.option_strings)
        written = f"{written} {_value(action)}".rstrip()
    else:
        written = _name(action)
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    return Argument(written, " ".join(text.split()), bool(action.option_strings))


def _value(action: argparse.Action) -> str:
    """What follows an option."""
    if action.nargs == 0:
        return ""
    name = _name(action)
    many: dict[Any, str] = {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} ..."}
    if isinstance(action.nargs, int):
        return " ".join([name] * action.nargs) if isinstance(action.metavar, str | None) else name
    return many.get(action.nargs, name)


def _placed(action: argparse.Action) -> str:
    """A word without a name, in the synopsis."""
    name = _name(action)
    many: dict[Any, str] = {
        "?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} ...", argparse.REMAINDER: "...",
    }  # fmt: skip
    return many.get(action.nargs, name)


def _name(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar is not None:
        return action.metavar
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    return action.dest.upper() if action.option_strings else action.dest
