"""An argparse parser that writes help to a given stream and never exits the process."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, Final, NoReturn, TextIO

from moldau.cli.command import UsageError
from moldau.deferred import deferred_pattern

_VALUE: Final = deferred_pattern(r"-(\d+(ms|s|m|h|d)?|\d*\.\d+)$")
"""Words that begin with a hyphen and are values: numbers, and times such as -1h."""
_RATIO: Final = 0.7


def with_hint(message: str, program: str) -> str:
    """Return the message of a wrong command line, and where the help is, as one line."""
    return f"{message}{' Try' if message.endswith('?') else '; try'} {program} --help"


def did_you_mean(word: str, known: Iterable[str], ratio: float = _RATIO) -> str:
    """Return `; did you mean x?` with the most similar known word, or an empty text. It does not
    load `moldau.config`, which has the same for settings: each command would pay for that."""
    from difflib import get_close_matches

    found = get_close_matches(word, known, n=1, cutoff=ratio)
    return f"; did you mean {found[0]}?" if found else ""


class HelpGiven(Exception):
    """The help was printed, so the command is done."""


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError instead of exiting, and prints help to `out`."""

    def __init__(self, *, out: TextIO, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self._out = out
        self._has_profile = False
        self._negative_number_matcher = _VALUE

    def add_subparsers(self, **options: Any) -> Any:
        """Add subparsers of the same class, which write to the same stream."""
        options.setdefault("parser_class", self._subparser)
        return super().add_subparsers(**options)

    def add_profile(self, default: str | None = None) -> None:
        """Add `--profile`, here and in the subparsers that are added later. It is a word of
        `moldau` itself, so the help of a command does not repeat it."""
        self._has_profile = True
        self.add_argument("--profile", default=default, help=argparse.SUPPRESS)

    def _subparser(self, **given: Any) -> Parser:
        made = Parser(out=self._out, **given)
        if self._has_profile and "-" in made.prefix_chars:  # else all words are another program's
            made.add_profile(argparse.SUPPRESS)
        return made

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Reject unknown options here, so that the help that is named is that of the action, not of
        its command."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._hint(unknown)}")
        return found, unknown

    def _hint(self, unknown: list[str]) -> str:
        """Return the option that is most similar to the first unknown one, as a question, or
        where a template of lines belongs, which kcat takes behind `-f`."""
        if "--format" in self._option_string_actions and any("%" in each for each in unknown):
            return "; a template of lines goes behind --format"

        known = [each for each in self._option_string_actions if each.startswith("--")]
        option = next((each.partition("=")[0] for each in unknown if each.startswith("--")), "")
        return did_you_mean(option, known) if option else ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Name the most similar choice of a word that is none, instead of all of them."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            near = did_you_mean(str(value), [str(each) for each in action.choices or ()])
            if near:
                error.message = f"invalid choice: {value!r}{near}"
            raise

    def print_help(self, file: Any = None) -> None:
        self._out.write(self.format_help())

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise HelpGiven

    def error(self, message: str) -> NoReturn:
        raise UsageError(with_hint(message, self.prog))
