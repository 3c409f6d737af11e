"""An argparse parser that writes help to a given stream and never exits the process."""

from __future__ import annotations

import argparse
import re
from typing import Any, Final, NoReturn, TextIO

from moldau.cli.command import UsageError

_VALUE: Final = re.compile(r"-(\d+(ms|s|m|h|d)?|\d*\.\d+)$")
"""Words that begin with a hyphen and are values: numbers, and times such as -1h."""
_RATIO: Final = 0.7


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
        """Reject unknown options here, so that the usage is that of the action, not of its
        command."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._hint(unknown)}")
        return found, unknown

    def _hint(self, unknown: list[str]) -> str:
        """Return the option that is most similar to the first unknown one, as a question, or
        where a template of lines belongs, which kcat takes behind `-f`."""
        from difflib import get_close_matches

        if "--format" in self._option_string_actions and any("%" in each for each in unknown):
            return "; a template of lines goes behind --format"

        known = [each for each in self._option_string_actions if each.startswith("--")]
        option = next((each.partition("=")[0] for each in unknown if each.startswith("--")), "")
        near = get_close_matches(option, known, n=1, cutoff=_RATIO) if option else []
        return f"; did you mean {near[0]}?" if near else ""

    def print_help(self, file: Any = None) -> None:
        self._out.write(self.format_help())

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise HelpGiven

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")
