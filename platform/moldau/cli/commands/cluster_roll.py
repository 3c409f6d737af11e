"""`moldau cluster roll`: restart every node, the next one only when all are in sync.

Brokers move their leaders away before they stop (controlled shutdown), and get them back by an
election of preferred leaders when they are in sync again.
"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import OpenClient, client_settings, opened_admin
from moldau.cli.commands.current_view import await_current_view
from moldau.cli.commands.reassign import broker_ids
from moldau.cli.numbers import whole
from moldau.cli.output import write_json, write_lines
from moldau.errors import MoldauError
from moldau.errors.amounts import counted

if TYPE_CHECKING:
    from moldau.client import Admin
    from moldau.operations.availability import Risk, SeenCluster
    from moldau.operations.roll import RollProgress

PROGRESS: Final = "moldau-roll.json"
WITHIN_SECONDS: Final = 600
LOOK_SECONDS: Final = 0.5
LOOK_SECONDS_MAX: Final = 20.0
TOLD_SECONDS: Final = 10.0
NAMED_MAX: Final = 3


class Restarter(Protocol):
    """Restarts a node; it was stopped, and started again, when this returns."""

    def restart(self, node: int, seen: SeenCluster, within_s: float) -> None: ...

    def shown(self, node: int, seen: SeenCluster) -> str: ...


class CommandRestarter:
    """Runs a command of the user: words with `{id}`, `{host}` and `{rack}`, without a shell."""

    def __init__(self, command: str) -> None:
        self._words = shlex.split(command)
        if not self._words:
            raise UsageError("--restart needs a command, such as 'systemctl restart moldau@{id}'")

    def shown(self, node: int, seen: SeenCluster) -> str:
        return shlex.join(self._filled(node, seen))

    def restart(self, node: int, seen: SeenCluster, within_s: float) -> None:
        from moldau.runtime.node_processes import run_program

        words = self._filled(node, seen)
        try:
            code = run_program(words, within_s)
        except OSError as error:
            raise UsageError(f"--restart: {words[0]} cannot be run: {error.strerror}") from error
        if code != 0:
            how = f"took longer than {within_s:.0f} s" if code is None else f"ended with {code}"
            raise MoldauError(f"node {node}: {shlex.join(words)} {how}")

    def _filled(self, node: int, seen: SeenCluster) -> list[str]:
        brokers = {each.node_id: each for each in (*seen.described.brokers, *seen.described.fenced)}
        facts = {"id": str(node)}
        if node in brokers:
            facts |= {"host": brokers[node].address.host, "rack": brokers[node].rack or ""}
        try:
            return [each.format(**facts) for each in self._words]
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise UsageError(
                f"--restart for node {node}: {error} is not known; there are "
                f"{', '.join('{' + each + '}' for each in facts)}, and {{{{ stands for a brace"
            ) from None


class UpRestarter:
    """Asks the `moldau cluster up` of a directory to restart its nodes."""

    def __init__(self, directory: str) -> None:
        from moldau.runtime.places import absolute_path
        from moldau.testing.cluster_directory import RestartMarks

        self._marks = RestartMarks(absolute_path(directory))

    def shown(self, node: int, seen: SeenCluster) -> str:
        return f"by the `moldau cluster up` of {self._marks.directory}"

    def restart(self, node: int, seen: SeenCluster, within_s: float) -> None:
        from moldau.runtime.node_processes import monotonic_s, pause_s

        self._marks.make(node)
        until_s = monotonic_s() + within_s
        while self._marks.has(node):
            if monotonic_s() > until_s:
                self._marks.remove(node)
                raise MoldauError(
                    f"node {node} was not restarted in {within_s:.0f} s: see that `moldau cluster "
                    f"up --data {self._marks.directory}` runs, and look at the log of the node"
                )
            pause_s(LOOK_SECONDS)


def add_roll(parser: ArgumentParser) -> None:
    """Add the arguments: how a node is restarted, which nodes, and how long each may take."""
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument(
        "--restart",
        metavar="COMMAND",
        help="restarts one node, and returns when that was started again; {id}, {host} and {rack} "
        "stand for those of the node: 'systemctl restart moldau@{id}'",
    )
    how.add_argument(
        "--data", metavar="DIR", help="of the `moldau cluster up` that runs the nodes on this host"
    )
    parser.add_argument(
        "--nodes", type=broker_ids, metavar="ID,...", help="only these (default: all)"
    )
    parser.add_argument(
        "--within",
        type=whole(1, 86_400),
        default=WITHIN_SECONDS,
        metavar="SECONDS",
        help=f"that a node may take to restart, and to be in sync (default: {WITHIN_SECONDS})",
    )
    parser.add_argument(
        "--progress",
        metavar="FILE",
        default=PROGRESS,
        help=f"what is done so far, while it is not all (default: {PROGRESS} here)",
    )
    parser.add_argument(
        "--allow-pauses",
        action="store_true",
        help="also if partitions have too few replicas to be read and written meanwhile",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show order and commands")


def roll(arguments: Namespace, context: Context) -> int:
    """Restart the nodes one by one. If this is cut short, the next call goes on."""
    if arguments.json and not arguments.dry_run:
        raise UsageError("--json goes with --dry-run: a roll reports in text what it does")
    from moldau.cli.commands.roll_claim import claimed
    from moldau.operations.availability import look
    from moldau.operations.roll import order_of

    restarter: Restarter = (
        CommandRestarter(arguments.restart)
        if arguments.restart is not None
        else UpRestarter(arguments.data)
    )
    with opened_admin(arguments, context) as admin:
        seen = admin.run(look)
        progress = _progress(arguments, seen)
        order = order_of(seen, progress)
        shown = {node: restarter.shown(node, seen) for node in order}
        if arguments.dry_run:
            return _show(arguments, context, seen, shown)
        _check_pauses(arguments, seen, order)
        with ExitStack() as locks:
            locks.enter_context(_locked("--progress", arguments.progress))
            if arguments.data is not None:
                locks.enter_context(_locked("--data", f"{arguments.data}/roll"))
            settings = client_settings(arguments, context)
            check_alone = locks.enter_context(claimed(admin, settings, context.err.write))
            check_alone()
            _go_on(arguments, context, progress)
            _Roll(arguments, context, admin, restarter, progress).run(seen, check_alone)
    write_lines(context.out, [f"restarted {counted(len(progress.done), 'node')}"])
    return Exit.DONE


@contextmanager
def _locked(option: str, path: str) -> Iterator[None]:
    """Keep other rolls away while this one runs."""
    from moldau.runtime.real_files import RealFiles

    try:
        lock = RealFiles().lock(f"{path}.lock")
    except BlockingIOError:
        raise UsageError(f"another roll runs: it has locked {path}") from None
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()
        RealFiles().remove(f"{path}.lock")


def _go_on(arguments: Namespace, context: Context, progress: RollProgress) -> None:
    """Report what an earlier call has done."""
    if progress.done or progress.current is not None:
        done = ", ".join(map(str, progress.done)) or "none"
        write_lines(
            context.out, [f"goes on as {arguments.progress} says: restarted so far: {done}"]
        )


def _progress(arguments: Namespace, seen: SeenCluster) -> RollProgress:
    """Return the progress of the file if there is one of this cluster, or that of a new roll."""
    from moldau.operations.roll import RollProgress
    from moldau.runtime.real_files import RealFiles

    files, path = RealFiles(), arguments.progress
    cluster_id = seen.described.cluster_id or ""
    if files.exists(path):
        found = RollProgress.parse(files.read_text(path), path)
        if found.cluster_id != cluster_id:
            raise UsageError(f"{path} is of cluster {found.cluster_id}; give another --progress")
        if arguments.nodes and {*arguments.nodes} != {*found.nodes}:
            begun = ",".join(map(str, found.nodes))
            raise UsageError(
                f"--nodes: a roll of {begun} is not finished, as {path} says: go on without "
                f"--nodes, give another --progress, or remove the file to give that roll up"
            )
        return found
    nodes = list(dict.fromkeys(arguments.nodes or seen.nodes))
    unknown = sorted({*nodes} - {*seen.nodes})
    if unknown:
        known = ", ".join(map(str, seen.nodes))
        raise UsageError(f"--nodes: there is no living node {unknown[0]}; there are {known}")
    return RollProgress(cluster_id, nodes)


def _show(arguments: Namespace, context: Context, seen: SeenCluster, shown: dict[int, str]) -> int:
    from moldau.operations.roll import pauses_of, waits_for

    first = next(iter(shown), None)
    waits = waits_for(seen, _brokers(seen), first)
    pauses = [
        f"{each.failure}: {_place(each)} {each.kind.value}, {each.why}"
        for each in pauses_of(seen, list(shown))
    ]
    if arguments.json:
        steps = [{"node": node, "restart": text} for node, text in shown.items()]
        write_json(context.out, {"steps": steps, "waits_for": waits, "pauses": pauses})
    else:
        lines = [f"node {node}: {text}" for node, text in shown.items()]
        lines += [f"waits first: {each}" for each in waits]
        lines += [f"pauses: {each}" for each in pauses]
        write_lines(context.out, lines)
    return Exit.DONE


def _brokers(seen: SeenCluster) -> set[int]:
    return {each.node_id for each in (*seen.described.brokers, *seen.described.fenced)}


def _place(risk: Risk) -> str:
    numbers = ",".join(map(str, risk.partitions[:NAMED_MAX]))
    return f"{risk.what} {numbers}".strip()


def _check_pauses(arguments: Namespace, seen: SeenCluster, nodes: Sequence[int]) -> None:
    from moldau.operations.roll import pauses_of

    # One that is out of sync now is waited for; what a restart takes away then is known later.
    pauses = [] if [*seen.not_in_sync()] else pauses_of(seen, nodes)
    if pauses and not arguments.allow_pauses:
        first = pauses[0]
        more = f" (and {len(pauses) - 1} more: --dry-run)" if len(pauses) > 1 else ""
        raise MoldauError(
            f"while {first.failure} restarts, {_place(first)} is {first.kind.value}: {first.why}"
            f"{more}. Give it more replicas, or say --allow-pauses"
        )


class _Roll:
    """A roll that is under way. The file of the progress is renewed before and after each node."""

    def __init__(
        self,
        arguments: Namespace,
        context: Context,
        admin: OpenClient[Admin],
        restarter: Restarter,
        progress: RollProgress,
    ) -> None:
        self._arguments = arguments
        self._context = context
        self._admin = admin
        self._restarter = restarter
        self._progress = progress

    def run(self, seen: SeenCluster, check_alone: Callable[[], None]) -> None:
        """Restart all that are left. The first view of the cluster is `seen`. `check_alone` raises
        if another roll has taken over."""
        from moldau.operations.roll import next_node
        from moldau.runtime.real_files import RealFiles

        progress, total = self._progress, len(self._progress.nodes)
        known, floors = _brokers(seen), seen.min_insync
        while (node := next_node(seen, progress)) is not None:
            seen = self._await_clear(f"node {node} waits", known, floors, node)
            if progress.current is None:  # another controller may lead by now
                node = next_node(seen, progress) or node
            _check_pauses(self._arguments, seen, [node])
            check_alone()
            progress.current = node
            self._keep()
            clock = self._admin.runtime.clock
            begun = clock.monotonic()
            self._report(f"node {node} ({len(progress.done) + 1} of {total}): restarts")
            self._restarter.restart(node, seen, self._arguments.within)
            self._await_return(node, floors)
            seen = self._await_clear(f"node {node} is not back", known, floors)
            self._elect()
            progress.finish(node)
            self._keep()
            self._report(f"node {node}: in sync again after {clock.monotonic() - begun:.1f} s")
        RealFiles().remove(self._arguments.progress)

    def _keep(self) -> None:
        from moldau.runtime.real_files import RealFiles

        RealFiles().write_text_atomic(self._arguments.progress, self._progress.text())

    def _await_clear(
        self, what: str, known: set[int], floors: Mapping[str, int], node: int | None = None
    ) -> SeenCluster:
        """Return a view of the cluster in which nothing has to be waited for."""
        from moldau.cli.shell import pause
        from moldau.operations.roll import waits_for

        clock = self._admin.runtime.clock
        until = clock.monotonic() + self._arguments.within
        told, is_sure = clock.monotonic(), False
        while True:
            seen = self._look(floors)
            waits = (
                ["the cluster does not answer"] if seen is None else (waits_for(seen, known, node))
            )
            if seen is not None and not waits:
                if is_sure:
                    return seen
                # A broker that has not heard of the restart yet shows all in sync.
                await_current_view(self._admin, self._context)
                is_sure = True
                continue
            is_sure = False
            line = f"{what}: {_some(waits)}"
            if clock.monotonic() > until:
                raise MoldauError(
                    f"{line}, for {self._arguments.within} s. The same command goes on from here"
                )
            if clock.monotonic() >= told:
                self._report(line)
                told = clock.monotonic() + TOLD_SECONDS
            self._admin.run(lambda _: pause(LOOK_SECONDS))

    def _await_return(self, node: int, floors: Mapping[str, int]) -> None:
        """Wait until the restarted process reads metadata."""
        from moldau.cli.shell import pause
        from moldau.operations.roll import has_returned

        clock = self._admin.runtime.clock
        until = clock.monotonic() + self._arguments.within
        restarted: SeenCluster | None = None
        while True:
            seen = self._look(floors)
            restarted = restarted or seen
            if seen is not None and restarted is not None and has_returned(seen, node, restarted):
                return
            if clock.monotonic() > until:
                raise MoldauError(
                    f"node {node} has not returned {self._arguments.within} s after its restart: "
                    "look at its log. The same command restarts it again, and goes on"
                )
            self._admin.run(lambda _: pause(LOOK_SECONDS))

    def _look(self, floors: Mapping[str, int]) -> SeenCluster | None:
        from moldau.cli.shell import within_or_later
        from moldau.operations.availability import look_again

        return self._admin.run(
            lambda client: within_or_later(LOOK_SECONDS_MAX, look_again(client, floors))
        )

    def _elect(self) -> None:
        from moldau.errors.codes import ErrorCode
        from moldau.protocol.election import Election

        results = self._admin.run(
            lambda client: client.elect_leaders(None, election=Election.PREFERRED)
        )
        failed = {
            where: error
            for where, error in results.items()
            if error is not None and error.code != ErrorCode.ELECTION_NOT_NEEDED
        }
        for where, error in failed.items():
            self._report(f"{where} has no preferred leader: {error}")

    def _report(self, line: str) -> None:
        write_lines(self._context.out, [line])
        self._context.out.flush()


def _some(lines: Sequence[str]) -> str:
    more = f" and {len(lines) - NAMED_MAX} more" if len(lines) > NAMED_MAX else ""
    return "; ".join(lines[:NAMED_MAX]) + more
