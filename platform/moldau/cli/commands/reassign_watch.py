"""Waits for moves to end: with a bar on a terminal, or a line for each change otherwise."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context
from moldau.cli.commands.cluster_connection import Opened
from moldau.cli.output import write_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from moldau.cli.commands.reassign_plan import Place
    from moldau.client import Admin

LOOK_SECONDS: Final = 0.5

Show = "Callable[[int], None]"


def wait_until_moved(admin: Opened[Admin], context: Context, places: Collection[Place]) -> None:
    """Wait until none of these partitions moves. Ctrl-C ends the wait, but not the moves."""
    from moldau.cli.shell import pause

    total = len(places)
    with _shown(context, total) as show:
        while True:
            moving = admin.run(lambda client: client.list_partition_reassignments())
            left = sum((each.topic, each.partition) in places for each in moving)
            show(total - left)
            if not left:
                return
            admin.run(lambda _: pause(LOOK_SECONDS))


@contextmanager
def _shown(context: Context, total: int) -> Iterator[Callable[[int], None]]:
    if context.err.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress("partitions moved", *columns, console=Console(file=context.err)) as bar:
            task = bar.add_task("", total=total)
            yield lambda done: bar.update(task, completed=done)
        return
    told = -1

    def tell(done: int) -> None:
        nonlocal told
        if done != told:
            told = done
            write_lines(context.err, [f"{done} of {total} partitions have moved"])

    yield tell
