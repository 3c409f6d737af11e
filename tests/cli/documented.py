"""The `moldau ...` command lines of a document, and the parser that they go through.

In a code block with lines that begin with `$ `, these are commands and all others their output.
Without such lines every line may be one, after a pipe or variables of the environment too. In
prose a command stands in backticks, or in a line that is indented by four.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from io import StringIO
from typing import Final

from moldau.cli.application import GROUP, _before_command
from moldau.cli.command import Command, UsageError
from moldau.cli.parser import HelpGiven, Parser
from moldau.errors import MoldauError
from moldau.plugins import Plugins, installed_plugins

_BLOCK: Final = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_INDENTED: Final = re.compile(r"^ {4,}(?:\$ )?(moldau .*)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"^ *# +(moldau .*)$", re.MULTILINE)
_BACKTICKS: Final = re.compile(r"`([^`]+)`")
_OTHER_LANGUAGES: Final = frozenset({"python", "json", "yaml", "toml", "java", "sql", "ini"})
_ASSIGNMENT: Final = re.compile(r"[A-Z][A-Z0-9_]*=")
_SUBSTITUTION: Final = re.compile(r"\$\(([^()]*)\)")
_REDIRECTION: Final = re.compile(r"[<>]+&?")
_OPERATOR: Final = re.compile(r"[();|&]+")
_NAME: Final = re.compile(r"[a-z][a-z-]*")
_OPTION: Final = re.compile(r"--?[a-z]")
_OWN_OPTIONS: Final = frozenset({"-h", "--help", "--version", "--debug"})


@dataclass(frozen=True)
class Line:
    """A command of a document: its words after `moldau`."""

    number: int
    words: tuple[str, ...]
    is_whole: bool
    """Whether it can be typed as it is. In prose it may be the beginning of a command."""


def documented(text: str) -> Iterator[Line]:
    """The commands of a Markdown page."""
    prose = _BLOCK.sub(lambda found: "\n" * found.group().count("\n"), text)
    for block in _BLOCK.finditer(text):
        if block.group(2) not in _OTHER_LANGUAGES:
            first = text.count("\n", 0, block.start(3)) + 1
            yield from _of_block(block.group(3), first)
    for found in _INDENTED.finditer(prose):
        yield from _lines(found.group(1), _number(prose, found.start(1)), is_whole=True)
    yield from _in_backticks(_INDENTED.sub("", prose))


def mentioned(text: str) -> Iterator[Line]:
    """The commands that comments and docstrings of a program or a YAML file mention."""
    for found in _COMMENT.finditer(text):
        yield from _lines(found.group(1), _number(text, found.start(1)), is_whole=False)
    yield from _in_backticks(text)


def _of_block(block: str, first: int) -> Iterator[Line]:
    lines = block.replace("\\\n", "\0").split("\n")
    has_prompts = any(line.lstrip().startswith("$ ") for line in lines)
    number = first
    for line in lines:
        command = line.lstrip()
        if command.startswith("$ ") or not has_prompts:
            shown = command.removeprefix("$ ").replace("\0", " ")
            yield from _lines(shown, number, is_whole=True)
        number += 1 + line.count("\0")


def _in_backticks(prose: str) -> Iterator[Line]:
    for found in _BACKTICKS.finditer(prose):
        quoted = found.group(1).replace("\\|", "|").replace("\n", " ")
        yield from _lines(quoted, _number(prose, found.start(1)), is_whole=False)


def _number(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _lines(text: str, number: int, *, is_whole: bool) -> Iterator[Line]:
    """Yield each `moldau` of a line of the shell."""
    if "moldau " not in text:
        return
    for inner in _SUBSTITUTION.findall(text):
        yield from _lines(inner, number, is_whole=is_whole)
    for words in _commands(_SUBSTITUTION.sub("X", text)):
        if words[:3] == ["python", "-m", "moldau"]:
            words = words[2:]
        if words[:2] == ["docker", "run"] and "moldau" in words:
            words = ["moldau", *words[len(words) - words[::-1].index("moldau") :]]
        if len(words) > 1 and words[0] == "moldau":
            yield Line(number, tuple(words[1:]), is_whole)


def _commands(text: str) -> list[list[str]]:
    """Split a line of the shell at pipes and the like, without redirections and assignments."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    try:
        words = list(lexer)
    except ValueError:  # a quote that ends on a later line
        words = text.split()
    passed = False
    for word in words:
        if passed or _REDIRECTION.fullmatch(word):
            passed = not passed
        elif _OPERATOR.fullmatch(word):
            found.append([])
        elif found[-1] or not _ASSIGNMENT.match(word):
            found[-1].append(word)
    return found


def fault(line: Line) -> str | None:
    """What `moldau` has against a line; None if nothing."""
    try:
        given = _before_command(line.words)
    except UsageError as error:
        return _first_line(error)
    unknown = [each for each in given.options if each not in _OWN_OPTIONS]
    if unknown:
        return f"moldau has no option {unknown[0]}"
    if not given.rest or given.rest[0] == "help" or not _NAME.fullmatch(given.rest[0]):
        return None
    name, words = given.rest[0], given.rest[1:]
    if name not in _installed().named(GROUP):
        return f"no command {name}"
    return _refusal(name, words) if line.is_whole else _unknown_word(_parser(name), words)


@cache
def _installed() -> Plugins:
    return installed_plugins()


@cache
def _parser(name: str) -> Parser:
    """The parser of a command, as `moldau` makes it."""
    command = _installed().load(GROUP, name)
    assert isinstance(command, Command)
    parser = Parser(out=StringIO(), prog=f"moldau {name}")
    parser.add_argument("--debug", action="store_true")
    parser.add_profile()
    command.configure(parser)
    return parser


def _refusal(name: str, words: Sequence[str]) -> str | None:
    try:
        _parser(name).parse_args(list(words))
    except HelpGiven:
        return None
    except MoldauError as error:
        return _first_line(error)
    return None


def _first_line(error: MoldauError) -> str:
    return str(error).partition("\n")[0]


def _unknown_word(parser: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    """Return the first action or option that does not exist. Names and values may be anything."""
    is_value = False
    for word in words:
        if _OPTION.match(word):
            name, equals, _ = word.partition("=")
            option = parser._option_string_actions.get(name)
            if option is None:
                return f"{parser.prog} has no {name}"
            is_value = option.nargs != 0 and not equals
        elif is_value:
            is_value = False
        elif _NAME.fullmatch(word):
            actions = parser._get_positional_actions()
            first = actions[0] if actions else None
            if isinstance(first, argparse._SubParsersAction):
                if word not in first.choices:
                    return f"{parser.prog} has no action {word}"
                parser = first.choices[word]
    return None
