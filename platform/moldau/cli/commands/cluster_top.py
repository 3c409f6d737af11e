"""`moldau cluster top`: what each broker leads, holds and receives, as it changes.

A broker that is down, or does not answer soon, does not delay the others.

A terminal gets a screen that is renewed, a pipe a line for each broker and look, and `--json` one
document a line.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit
from moldau.cli.commands.cluster_connection import opened_admin
from moldau.cli.commands.cluster_controller import all_brokers, leading_controller
from moldau.cli.commands.top import broker_looks
from moldau.cli.commands.top_report import BrokerLook
from moldau.cli.numbers import whole
from moldau.cli.output import shown, write_lines

if TYPE_CHECKING:
    from moldau.client import Admin

_SILENCE_S: Final = 3.0
_SIZE_WITHIN_S: Final = 2.0
_COLUMNS: Final = (
    "BROKER",
    "ADDRESS",
    "RACK",
    "STATE",
    "LEADS",
    "REPLICAS",
    "BEHIND",
    "BYTES",
    "BYTES/S",
)
_MIB: Final = 1 << 20


def cells_of(look: BrokerLook) -> tuple[str, ...]:
    """Return the cells of a broker's row in the table."""
    rate = look.bytes_per_second
    return (
        look.name,
        look.address,
        look.rack or "-",
        look.state,
        str(look.leads),
        str(look.replicas),
        str(look.behind),
        "-" if look.size_bytes is None else f"{look.size_bytes / _MIB:.1f} MiB",
        "-" if rate is None else f"{rate / _MIB:.1f} MiB",
    )


def add_top(parser: ArgumentParser) -> None:
    """Add the arguments for the interval and the number of looks."""
    parser.add_argument(
        "--every", type=whole(1, 3600), default=2, metavar="SECONDS", help="default: 2"
    )
    parser.add_argument("--times", type=whole(1, 10**6), help="look so often, then end")


async def look(client: Admin, controller: int | None) -> list[BrokerLook]:
    """Return the state of all registered brokers, sorted by id, including those that are down."""
    from moldau.client.admin.requests import at_once, value_of

    cluster = await all_brokers(client)
    topics = await client.list_topics(internal=True)
    alive = [each.node_id for each in cluster.brokers]
    found = await at_once(alive, lambda broker: _size(client, broker))
    sizes = {broker: value_of(size) for broker, size in found.items()}
    return broker_looks(cluster, topics, controller, sizes)


async def _looked(
    controller: int | None, report: Callable[[float], object], client: Admin
) -> list[BrokerLook]:
    from moldau.cli.shell import patiently

    return await patiently(look(client, controller), _SILENCE_S, report)


async def _size(client: Admin, broker: int) -> int | None:
    """Return the size of a broker's replicas; None if it does not answer soon. It may have died a
    moment ago, and must not delay the others."""
    from moldau.cli.shell import within_or_later

    found = await within_or_later(_SIZE_WITHIN_S, client.describe_log_dirs([broker]))
    if found is None:
        return None
    return sum(replica.size_bytes for each in found for replica in each.replicas)


def _grown(row: BrokerLook, before: BrokerLook | None, seconds: float) -> BrokerLook:
    """Return the row with the growth rate, if both looks have the size."""
    if before is None or before.size_bytes is None or row.size_bytes is None:
        return row
    return replace(row, bytes_per_second=(row.size_bytes - before.size_bytes) / seconds)


def top(arguments: Namespace, context: Context) -> int:
    """Show the brokers until Ctrl-C, or `--times` times."""
    from moldau.cli.shell import pause

    def report(seconds: float) -> None:
        if seconds < 2 * _SILENCE_S:  # once a look
            line = f"moldau: no answer for {seconds:.0f} s, still asking"
            write_lines(context.err, [line])
            context.err.flush()

    before: dict[int, BrokerLook] = {}
    looks = 0
    try:
        with (
            opened_admin(arguments, context) as admin,
            opened_admin(arguments, context) as asker,
            _shown(arguments, context) as show,
        ):
            last_s = admin.runtime.clock.monotonic()
            while arguments.times is None or looks < arguments.times:
                if looks:
                    admin.run(lambda _: pause(arguments.every))
                # Another connection: this answer may be late, and requests behind it would wait.
                leader = asker.run(leading_controller)
                found = admin.run(partial(_looked, leader, report))
                now_s = admin.runtime.clock.monotonic()
                seconds = max(now_s - last_s, 1e-3)
                rows = [_grown(each, before.get(each.broker), seconds) for each in found]
                show(rows)
                before, last_s = {each.broker: each for each in found}, now_s
                looks += 1
    except KeyboardInterrupt:
        return Exit.DONE
    return Exit.DONE


@contextmanager
def _shown(
    arguments: Namespace, context: Context
) -> Iterator[Callable[[Sequence[BrokerLook]], None]]:
    if arguments.json:
        yield lambda rows: _write_document(context, rows)
    elif not context.is_terminal:
        yield lambda rows: _write_rows(context, rows)
    else:
        from rich.console import Console
        from rich.live import Live
        from rich.table import Table
        from rich.text import Text

        def drawn(rows: Sequence[BrokerLook]) -> Table:
            table = Table(*_COLUMNS)
            for row in rows:
                table.add_row(*(Text(shown(cell)) for cell in cells_of(row)))
            return table

        with Live(console=Console(file=context.out), auto_refresh=False) as live:
            yield lambda rows: live.update(drawn(rows), refresh=True)


def _write_document(context: Context, rows: Sequence[BrokerLook]) -> None:
    import json
    from dataclasses import asdict

    context.out.write(json.dumps([asdict(each) for each in rows]) + "\n")
    context.out.flush()


def _write_rows(context: Context, rows: Sequence[BrokerLook]) -> None:
    for row in rows:
        named = zip(_COLUMNS, cells_of(row), strict=True)
        facts = " ".join(f"{name.lower()}={cell.replace(' ', '')}" for name, cell in named)
        write_lines(context.out, [facts])
    context.out.flush()
