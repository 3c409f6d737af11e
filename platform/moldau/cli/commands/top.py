"""`moldau top`: a cluster as it changes: brokers, busy topics, groups that lag, and trouble.

A terminal gets a screen that is renewed until Ctrl-C. Elsewhere, and with `--once`, two looks that
are `--every` seconds apart give the rates of one report. `--json` writes a document a line.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from io import StringIO
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import add_connection_arguments, opened_admin
from moldau.cli.numbers import whole
from moldau.cli.output import write_lines, write_table
from moldau.cli.summaries import SUMMARIES

if TYPE_CHECKING:
    from moldau.cli.commands.top_report import Look

_SILENCE_S: Final = 5.0
_CLEAR: Final = "\x1b[H\x1b[J"


class TopCommand:
    """Shows a cluster, again and again."""

    summary = SUMMARIES["top"]

    def configure(self, parser: ArgumentParser, /) -> None:
        add_connection_arguments(parser, json_help="write a JSON document a line, with all rows")
        parser.add_argument(
            "--every", type=whole(1, 3600), default=2, metavar="SECONDS", help="default: 2"
        )
        parser.add_argument("--once", action="store_true", help="one report; default of a pipe")
        parser.add_argument("--times", type=whole(1, 10**6), help="so many reports, also in a pipe")
        parser.add_argument(
            "--rows", type=whole(1, 10_000), default=10, help="of a table at most; default: 10"
        )
        parser.add_argument("--internal", action="store_true", help="also topics of the brokers")

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.runtime.signals import interrupted_by_sigterm

        if arguments.once and arguments.times is not None:
            raise UsageError("--once is --times 1: give one of them")
        try:
            with interrupted_by_sigterm():
                _watch(arguments, context)
        except KeyboardInterrupt:
            return Exit.DONE
        return Exit.DONE


def _watch(arguments: Namespace, context: Context) -> None:
    """Show reports until there are enough of them, or until Ctrl-C."""
    from moldau.cli.commands.cluster_controller import leading_controller
    from moldau.cli.commands.top_look import look
    from moldau.cli.shell import patiently, pause

    is_live = context.is_terminal and not arguments.once and not arguments.json
    left = arguments.times or (None if is_live else 1)

    def tell(seconds: float) -> None:
        if seconds < 2 * _SILENCE_S:  # once a look
            write_lines(context.err, [f"moldau: no answer for {seconds:.0f} s, still asking"])
            context.err.flush()

    before: Look | None = None
    with opened_admin(arguments, context) as admin, opened_admin(arguments, context) as asker:
        clock = admin.runtime.clock
        while left is None or left > 0:
            # Another connection: this answer may be late, and requests behind it would wait.
            leader = asker.run(leading_controller)
            found = admin.run(
                lambda client, leader=leader: patiently(  # type: ignore[misc]
                    look(client, clock, leader, arguments.internal), _SILENCE_S, tell
                )
            )
            if before is not None or is_live:
                _write(arguments, context, found, before, is_live)
                left = None if left is None else left - 1
            before = found
            if left is None or left > 0:
                admin.run(lambda _: pause(arguments.every))


def _write(
    arguments: Namespace, context: Context, now: Look, before: Look | None, is_live: bool
) -> None:
    """Write a report; on a screen in the place of the last one, with one write."""
    from moldau.cli.commands.top_report import document, headline, tables

    if arguments.json:
        from json import dumps

        context.out.write(dumps(document(now, before)) + "\n")
        context.out.flush()
        return
    text = StringIO()
    write_lines(text, [headline(now)])
    for header, rows in tables(now, before, arguments.rows):
        text.write("\n")
        write_table(text, header, rows)
    context.out.write((_CLEAR if is_live else "") + text.getvalue())
    context.out.flush()


command = TopCommand()
