"""The forms of log lines, for all commands that run until a signal: text, JSON, and events."""

from __future__ import annotations

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from moldau.cli.command import Context
    from moldau.logging.events import EventLines
    from moldau.runtime.files import Files

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


def event_lines(context: Context, files: Files) -> list[EventLines]:
    """Return the handler of events, if the program that runs this one asks for them."""
    from moldau.logging.events import EVENTS, EventLines
    from moldau.runtime.places import process_id

    directory = context.environment.get(EVENTS)

    def append(line: bytes) -> None:
        with files.open(f"{directory}/{process_id()}.jsonl", "write") as file:
            file.append(line)

    return [EventLines(append)] if directory else []
