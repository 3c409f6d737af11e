"""One run of `moldau mirror`: all flows until Ctrl-C, or until everything is copied (`--once`)."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit
from moldau.client import ErrorCode, KafkaError
from moldau.connect.api import ConnectError
from moldau.connect.installed.plugins import resolved
from moldau.errors.amounts import counted
from moldau.mirror.clusters import ensure_compacted, open_admin, open_producer
from moldau.mirror.flows import CHECKPOINT, SOURCE, Flow
from moldau.mirror.group_offsets import GroupOffsets, chosen_groups
from moldau.mirror.progress import Ready
from moldau.mirror.running import MirrorRun, prepare_state
from moldau.mirror.settings import CheckpointConfig
from moldau.runtime.real import run

if TYPE_CHECKING:
    from moldau.logging import Loggers
    from moldau.runtime import Runtime

STATE: Final = ".moldau/mirror"
_LOOK_S: Final = 0.5
_LINE_S: Final = 10.0
_FLUSH_MS: Final = "500"
_DELETED: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""A topic of the source was deleted during a look."""
_FAILED_S: Final = 20.0
"""How long a connector may be FAILED before `--once` gives up; the worker restarts it meanwhile."""


def run_flows(flows: list[Flow], arguments: Namespace, context: Context) -> int:
    """Run the flows. Return the exit code."""
    from moldau.connect.commands.worker import make_loggers
    from moldau.runtime.places import absolute_path
    from moldau.runtime.real_files import RealFiles
    from moldau.runtime.signals import until_signal

    files = RealFiles()
    root = absolute_path(arguments.state or STATE)
    chosen = [_copying_only(flow) for flow in flows if flow.copies] if arguments.once else flows
    places = {flow.name: f"{root}/{flow.source}-{flow.target}" for flow in chosen}
    locks = [prepare_state(files, places[flow.name], flow) for flow in chosen]

    async def main(runtime: Runtime) -> int:
        loggers = make_loggers(runtime, arguments, context)
        session = FlowSession(runtime, context, loggers, is_once=arguments.once)
        signal = await until_signal(session.run(chosen, places))
        if signal is not None:
            return Exit.INTERRUPTED if arguments.once else Exit.DONE
        return Exit.FAILED if session.refused else Exit.DONE

    try:
        code = run(main, node="mirror")
        if arguments.once and code != Exit.INTERRUPTED:
            _finish_groups(flows, context)
    finally:
        for lock in locks:
            lock.release()
    return code


def _copying_only(flow: Flow) -> Flow:
    """Return the flow for `--once`: offsets are stored soon, as its end depends on them."""
    worker = {**flow.worker, "offset.flush.interval.ms": _FLUSH_MS}
    return replace(flow, connectors={SOURCE: flow.config}, worker=worker)


def _finish_groups(flows: list[Flow], context: Context) -> None:

    for flow in flows:
        if CHECKPOINT in flow.connectors:
            groups, offsets = set_group_offsets(flow)
            _write(
                context,
                f"{flow.name}: {counted(groups, 'group')}, {counted(offsets, 'offset')} set on "
                "the target",
            )


def _write(context: Context, line: str) -> None:
    with suppress(BrokenPipeError):
        context.out.write(f"{line}\n")
        context.out.flush()


class FlowSession:
    """The running flows and their lines of progress."""

    def __init__(
        self, runtime: Runtime, context: Context, loggers: Loggers, *, is_once: bool
    ) -> None:
        self._runtime = runtime
        self._context = context
        self._loggers = loggers
        self._is_once = is_once
        self._shown: dict[str, str] = {}
        self._reported: set[str] = set()
        self._failed_since: float | None = None
        self.refused: list[str] = []
        """Lines with the topics that were not copied, as the target does not take them."""

    def _now(self) -> float:
        return self._runtime.clock.monotonic()

    async def run(self, flows: list[Flow], places: dict[str, str]) -> None:
        """Run the flows until cancelled, or with `--once` until everything is copied."""
        async with AsyncExitStack() as stack:
            runs = []
            for flow in flows:
                made = MirrorRun(
                    self._runtime, flow, places[flow.name], self._loggers, is_once=self._is_once
                )
                stack.push_async_callback(made.aclose)
                await made.start()
                runs.append(made)
            copying = [each for each in runs if each.flow.copies]
            names = ", ".join(each.flow.name for each in copying)
            _write(self._context, f"moldau mirror is up: {names}; Ctrl-C stops it.")
            await self._watch(copying)

    async def _watch(self, runs: list[MirrorRun]) -> None:
        began, line_at = self._now(), self._now()
        while True:
            await asyncio.sleep(_LOOK_S)
            are_running = all(each.is_running() for each in runs)
            try:
                looks = [(each, await each.look()) for each in runs]
                if self._is_once:
                    looks = [(each, await each.settle(ready)) for each, ready in looks]
            except KafkaError as error:
                if not error.retriable and error.code not in _DELETED:
                    raise
                continue  # a cluster does not answer; the connectors say so and wait
            is_done = self._is_once and are_running and all(ready.is_done for _, ready in looks)
            self._check(runs)
            is_due = is_done or self._now() >= line_at
            if is_due or self._context.err.isatty():
                self._show(looks, self._now() - began, is_last=is_done)
            if is_due:
                line_at = self._now() + _LINE_S
            if is_done:
                return

    def _check(self, runs: list[MirrorRun]) -> None:
        """Show new failures. With `--once`, raise ConnectError for one that lasts."""
        failures = [line for each in runs for line in each.failures()]
        self.refused = [line for each in runs for line in each.refused]
        for line in (*failures, *self.refused):
            if line not in self._reported:
                self._reported.add(line)
                self._context.err.write(f"moldau: {line}\n")
        if not failures:
            self._failed_since = None
        elif self._failed_since is None:
            self._failed_since = self._now()
        elif self._is_once and self._now() - self._failed_since > _FAILED_S:
            raise ConnectError(f"nothing more is copied: {failures[0]}")

    def _show(self, looks: list[tuple[MirrorRun, Ready]], seconds: float, *, is_last: bool) -> None:
        for each, ready in looks:
            line = f"{each.flow.name}: {ready.line(seconds)}"
            if self._context.err.isatty() and not is_last and len(looks) == 1:
                self._context.err.write(f"\r\x1b[K{line}")
                self._context.err.flush()
                continue
            facts = f"{ready.copied} {ready.left} {ready.partitions}"
            if self._shown.get(each.flow.name) != facts:
                self._shown[each.flow.name] = facts
                end = "\r\x1b[K" if self._context.err.isatty() else ""
                self._context.err.write(end)
                _write(self._context, line)
                if not ready.topics:
                    self._context.err.write(
                        f"moldau: {each.flow.name}: no topic of the source is chosen; --dry-run "
                        "names the patterns that match nothing\n"
                    )


def set_group_offsets(flow: Flow) -> tuple[int, int]:
    """Write the checkpoints of a flow's groups and set their offsets on the target. Return the
    number of groups and of offsets."""
    props, _ = resolved(flow.connectors[CHECKPOINT], flow.worker)
    config = CheckpointConfig.of(props)
    topic = config.policy().checkpoints_topic(config.source)
    with open_admin(props, "target", config.admin_timeout_ms) as admin:
        setting = "checkpoints.topic.replication.factor"
        ensure_compacted(admin, topic, config.checkpoints_replicas, setting)
    with closing(GroupOffsets(config, props)) as offsets:
        groups = chosen_groups(config, offsets.source)
        with open_producer(props, "target") as producer:
            for each in offsets.new_checkpoints(groups):
                producer.send(topic, each.value, key=each.key, partition=0)
        return len(groups), offsets.set_offsets(groups)
