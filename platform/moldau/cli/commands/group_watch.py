"""`moldau group describe --watch`: lag as it changes, with the rates of readers and writers.

A terminal gets a screen that is renewed, with the partitions that are furthest behind on top. A
pipe gets one line for each group and look, or with --json one document.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit
from moldau.cli.commands.cluster_connection import OpenClient
from moldau.cli.commands.group_offsets import number
from moldau.cli.commands.group_report import facts_of, headline
from moldau.cli.output import shown, write_above, write_lines
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from rich.console import RenderableType

    from moldau.client import Admin, GroupProgress, TopicPartition

_SILENCE_S: Final = 3.0
_COLUMNS: Final = ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "READ/S", "WRITTEN/S", "CLIENT"]

Look = Callable[["Admin"], Coroutine[Any, Any, "list[GroupProgress]"]]


@dataclass(frozen=True, slots=True)
class Pace:
    """Offsets per second between two looks; None at the first look."""

    read: float | None = None
    written: float | None = None

    def left_s(self, lag: int) -> float | None:
        """Return the seconds until the lag is 0 at these rates; None if it does not shrink."""
        if self.read is None or self.written is None or self.read <= self.written:
            return None
        return lag / (self.read - self.written)


@dataclass(frozen=True, slots=True)
class GroupRates:
    """A group at one look, and the rates of its partitions since the look before."""

    progress: GroupProgress
    by_partition: dict[TopicPartition, Pace]

    @property
    def pace(self) -> Pace:
        """The rates of the whole group."""
        known = [each for each in self.by_partition.values() if each.read is not None]
        if not known:
            return Pace()
        return Pace(sum(each.read or 0 for each in known), sum(each.written or 0 for each in known))


def seen(now: GroupProgress, before: GroupProgress | None, seconds: float) -> GroupRates:
    """Return what two looks show that are `seconds` apart."""
    paces: dict[TopicPartition, Pace] = {}
    known = {} if before is None else {each.where: each for each in before.partitions}
    for each in now.partitions:
        old = known.get(each.where)
        if old is None or None in (old.committed, old.end, each.committed, each.end):
            paces[each.where] = Pace()
            continue
        assert old.committed is not None
        assert each.committed is not None
        read = each.committed.offset - old.committed.offset
        written = (each.end or 0) - (old.end or 0)
        paces[each.where] = Pace(read / seconds, written / seconds)
    return GroupRates(now, paces)


def watch(arguments: Namespace, context: Context, admin: OpenClient[Admin], look: Look) -> int:
    """Show the groups until Ctrl-C, or `--times` times. Say so if a cluster does not answer:
    otherwise the last look on a screen would be taken for the present state."""
    from moldau.cli.shell import patiently, pause

    clock = admin.runtime.clock
    before: dict[str, GroupProgress] = {}
    last = clock.monotonic()
    looks = 0
    try:
        with _shows(arguments, context) as (show, say):

            def report(seconds: float) -> None:
                say(f"moldau: no answer for {seconds:.0f} s, still asking")

            while arguments.times is None or looks < arguments.times:
                if looks:
                    admin.run(lambda _: pause(arguments.every))
                found = admin.run(lambda client: patiently(look(client), _SILENCE_S, report))
                now = clock.monotonic()
                seconds = max(now - last, 1e-3)
                show(
                    clock.wall_ms(),
                    [seen(each, before.get(each.group.group_id), seconds) for each in found],
                )
                before = {each.group.group_id: each for each in found}
                last = now
                looks += 1
    except KeyboardInterrupt:
        return Exit.DONE
    return Exit.DONE


Show = Callable[[int, Sequence[GroupRates]], None]
Say = Callable[[str], None]


@contextmanager
def _shows(arguments: Namespace, context: Context) -> Iterator[tuple[Show, Say]]:
    """Yield two functions: one shows a look, the other writes a line beside it."""

    def say(line: str) -> None:
        write_lines(context.err, [line])
        context.err.flush()

    if arguments.json:
        yield (lambda at_ms, found: _write_documents(context, at_ms, found)), say
    elif not context.is_terminal:
        yield (lambda at_ms, found: _write_lines(context, at_ms, found)), say
    else:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(file=context.out), auto_refresh=False) as live:
            yield (
                lambda _, found: live.update(screen(found), refresh=True),
                partial(write_above, live.console) if context.err.isatty() else say,
            )


def _write_documents(context: Context, at_ms: int, found: Sequence[GroupRates]) -> None:
    import json

    for each in found:
        pace = each.pace
        facts = {
            "at_ms": at_ms,
            **facts_of(each.progress),
            "read_per_second": None if pace.read is None else round(pace.read, 1),
            "written_per_second": None if pace.written is None else round(pace.written, 1),
        }
        context.out.write(json.dumps(facts) + "\n")
    context.out.flush()


def _write_lines(context: Context, at_ms: int, found: Sequence[GroupRates]) -> None:
    from datetime import UTC, datetime

    at = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%SZ")
    for each in found:
        group = each.progress.group
        members = len(group.members)
        line = f"{at} {group.group_id} {group.state} members={members} lag={each.progress.lag}"
        write_lines(context.out, [f"{line}{_pace_in_words(each)}"])
    context.out.flush()


def _pace_in_words(each: GroupRates) -> str:
    pace = each.pace
    if pace.read is None or pace.written is None:
        return ""
    words = f" read={pace.read:.0f}/s written={pace.written:.0f}/s"
    left_s = pace.left_s(each.progress.lag)
    return words if left_s is None or not each.progress.lag else f"{words} done-in={left_s:.0f}s"


def screen(found: Sequence[GroupRates]) -> RenderableType:
    """Return the screen of one look."""
    from rich.console import Group
    from rich.table import Column, Table
    from rich.text import Text

    parts: list[RenderableType] = []
    for each in found:
        parts.append(Text(shown(f"{headline(each.progress)}{_pace_in_words(each)}")))
        table = Table(*(Column(each, overflow="fold") for each in _COLUMNS))
        furthest = sorted(each.progress.partitions, key=lambda one: -(one.lag or 0))
        for one in furthest:
            pace = each.by_partition[one.where]
            table.add_row(
                Text(one.where.topic),
                str(one.where.partition),
                number(None if one.committed is None else one.committed.offset),
                number(one.end),
                number(one.lag),
                number(None if pace.read is None else round(pace.read)),
                number(None if pace.written is None else round(pace.written)),
                Text("-" if one.member is None else shown(one.member.client_id)),
            )
        parts.append(table)
    return Group(*parts)
