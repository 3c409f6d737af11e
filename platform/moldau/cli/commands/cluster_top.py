"""`moldau cluster top`: what each broker leads, holds and takes in, as it changes.

A person gets a screen that renews itself, a pipe a line for each broker and look, `--json` a
document a line.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit
from moldau.cli.commands.cluster_connection import opened_admin
from moldau.cli.commands.cluster_controller import leading_controller
from moldau.cli.numbers import whole
from moldau.cli.output import shown, write_lines

if TYPE_CHECKING:
    from moldau.client import Admin

_SILENCE_S: Final = 3.0
_COLUMNS: Final = ("BROKER", "ADDRESS", "RACK", "LEADS", "REPLICAS", "BEHIND", "BYTES", "BYTES/S")
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """A broker at one look."""

    broker: int
    address: str
    rack: str | None
    is_controller: bool
    leads: int
    replicas: int
    behind: int
    """Replicas that are not in sync."""
    size_bytes: int
    bytes_per_second: float | None = None

    def cells(self) -> tuple[str, ...]:
        """As a line of the table."""
        rate = "-" if self.bytes_per_second is None else f"{self.bytes_per_second / _MIB:.1f} MiB"
        mark = "*" if self.is_controller else ""
        return (
            f"{self.broker}{mark}",
            self.address,
            self.rack or "-",
            str(self.leads),
            str(self.replicas),
            str(self.behind),
            f"{self.size_bytes / _MIB:.1f} MiB",
            rate,
        )


def add_top(parser: ArgumentParser) -> None:
    """How often, and how long."""
    parser.add_argument(
        "--every", type=whole(1, 3600), default=2, metavar="SECONDS", help="default: 2"
    )
    parser.add_argument("--times", type=whole(1, 10**6), help="look so often, then end")


async def look(client: Admin) -> list[Row]:
    """All brokers that live, by number."""
    cluster = await client.describe_cluster()
    controller = await leading_controller(client)
    topics = await client.list_topics(internal=True)
    partitions = [each for topic in topics for each in topic.partitions]
    sizes: dict[int, int] = {}
    for directory in await client.describe_log_dirs():
        size = sum(each.size_bytes for each in directory.replicas)
        sizes[directory.broker] = sizes.get(directory.broker, 0) + size
    return [
        Row(
            each.node_id,
            str(each.address),
            each.rack,
            each.node_id == controller,
            leads=sum(one.leader == each.node_id for one in partitions),
            replicas=sum(each.node_id in one.replicas for one in partitions),
            behind=sum(
                each.node_id in one.replicas and each.node_id not in one.isr for one in partitions
            ),
            size_bytes=sizes.get(each.node_id, 0),
        )
        for each in sorted(cluster.brokers, key=lambda each: each.node_id)
    ]


def top(arguments: Namespace, context: Context) -> int:
    """Until Ctrl-C, or so many times as were asked for."""
    from dataclasses import replace

    from moldau.cli.shell import patiently, pause

    def tell(seconds: float) -> None:
        write_lines(context.err, [f"moldau: no answer for {seconds:.0f} s, still asking"])
        context.err.flush()

    before: dict[int, Row] = {}
    looks = 0
    try:
        with opened_admin(arguments, context) as admin, _shown(arguments, context) as show:
            last_s = admin.runtime.clock.monotonic()
            while arguments.times is None or looks < arguments.times:
                if looks:
                    admin.run(lambda _: pause(arguments.every))
                found = admin.run(lambda client: patiently(look(client), _SILENCE_S, tell))
                now_s = admin.runtime.clock.monotonic()
                seconds = max(now_s - last_s, 1e-3)
                rows = [
                    each
                    if each.broker not in before
                    else replace(
                        each,
                        bytes_per_second=(each.size_bytes - before[each.broker].size_bytes)
                        / seconds,
                    )
                    for each in found
                ]
                show(rows)
                before, last_s = {each.broker: each for each in found}, now_s
                looks += 1
    except KeyboardInterrupt:
        return Exit.DONE
    return Exit.DONE


@contextmanager
def _shown(arguments: Namespace, context: Context) -> Iterator[Callable[[Sequence[Row]], None]]:
    if arguments.json:
        yield lambda rows: _write_document(context, rows)
    elif not context.is_terminal:
        yield lambda rows: _write_rows(context, rows)
    else:
        from rich.console import Console
        from rich.live import Live
        from rich.table import Table
        from rich.text import Text

        def drawn(rows: Sequence[Row]) -> Table:
            table = Table(*_COLUMNS)
            for row in rows:
                table.add_row(*(Text(shown(cell)) for cell in row.cells()))
            return table

        with Live(console=Console(file=context.out), auto_refresh=False) as live:
            yield lambda rows: live.update(drawn(rows), refresh=True)


def _write_document(context: Context, rows: Sequence[Row]) -> None:
    import json
    from dataclasses import asdict

    context.out.write(json.dumps([asdict(each) for each in rows]) + "\n")
    context.out.flush()


def _write_rows(context: Context, rows: Sequence[Row]) -> None:
    for row in rows:
        named = zip(_COLUMNS, row.cells(), strict=True)
        facts = " ".join(f"{name.lower()}={cell.replace(' ', '')}" for name, cell in named)
        write_lines(context.out, [facts])
    context.out.flush()
