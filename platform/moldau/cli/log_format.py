"""The options of the form of log lines, which all commands have that run until a signal."""

from __future__ import annotations

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any, Final

_JSON: Final = "json"


class _Format(Action):
    """Stores whether the lines are JSON."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, values == _JSON)


def add_log_format(parser: ArgumentParser) -> None:
    """Add `--log-format text|json` and its short form `--log-json`; both set `log_json`."""
    parser.add_argument(
        "--log-format",
        choices=("text", _JSON),
        action=_Format,
        dest="log_json",
        default=False,
        help="the form of log lines; default: text",
    )
    parser.add_argument("--log-json", action="store_true", help="the same as --log-format json")
