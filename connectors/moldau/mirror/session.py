"""One run of `moldau mirror`: all flows until Ctrl-C, or until everything is copied (`--once`)."""

from __future__ import annotations

from argparse import Namespace
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit
from moldau.client import KafkaError
from moldau.connect.installed.plugins import resolved
from moldau.errors import without_frames
from moldau.errors.amounts import counted
from moldau.mirror.clusters import ensure_compacted, open_admin, open_producer
from moldau.mirror.flows import CHECKPOINT, SOURCE, Flow
from moldau.mirror.group_offsets import GroupOffsets, chosen_groups
from moldau.mirror.progress import SessionCore, SessionReady
from moldau.mirror.running import MirrorRun, prepare_state
from moldau.mirror.settings import CheckpointConfig
from moldau.runtime.driver import Driver
from moldau.runtime.real import run

if TYPE_CHECKING:
    from moldau.runtime import Runtime

STATE: Final = ".moldau/mirror"
_FLUSH_MS: Final = "500"


def run_flows(flows: list[Flow], arguments: Namespace, context: Context) -> int:
    """Run the flows. Return the exit code."""
    from moldau.connect.commands.worker import make_loggers
    from moldau.runtime.places import absolute_path
    from moldau.runtime.real_files import RealFiles
    from moldau.runtime.signals import until_signal

    root = absolute_path(arguments.state or STATE)
    chosen = [_copying_only(flow) for flow in flows if flow.copies] if arguments.once else flows
    places = [f"{root}/{flow.source}-{flow.target}" for flow in chosen]
    locks = [prepare_state(RealFiles(), *each) for each in zip(places, chosen, strict=True)]

    async def main(runtime: Runtime) -> int:
        loggers = make_loggers(runtime, arguments, context)
        runs = [
            MirrorRun(runtime, flow, place, loggers, is_once=arguments.once)
            for flow, place in zip(chosen, places, strict=True)
        ]
        signal = await until_signal(_copy(runtime, runs, context, is_once=arguments.once))
        if signal is not None:
            return Exit.INTERRUPTED if arguments.once else Exit.DONE
        return Exit.FAILED if any(each.refused for each in runs) else Exit.DONE

    try:
        code = run(main, node="mirror")
        if arguments.once and code != Exit.INTERRUPTED:
            for flow in flows:
                if CHECKPOINT in flow.connectors:
                    _write(context, _set_group_offsets(flow))
    finally:
        for lock in locks:
            lock.release()
    return code


def _copying_only(flow: Flow) -> Flow:
    """Return the flow for `--once`: offsets are stored soon, as its end depends on them."""
    worker = {**flow.worker, "offset.flush.interval.ms": _FLUSH_MS}
    return replace(flow, connectors={SOURCE: flow.config}, worker=worker)


def _write(context: Context, text: str) -> None:
    with suppress(BrokenPipeError):
        context.out.write(text)
        context.out.flush()


async def _copy(
    runtime: Runtime, runs: list[MirrorRun], context: Context, *, is_once: bool
) -> None:
    """Run flows until cancelled, or until `SessionCore` ends them."""
    now, copying = runtime.clock.monotonic, [each for each in runs if each.flow.copies]

    async def act(ready: SessionReady) -> bool:
        context.err.write(ready.err)
        context.err.flush()
        _write(context, ready.out)
        if ready.failure is not None:
            raise without_frames(ready.failure)
        if ready.is_look_due:
            try:
                core.on_look([await each.look() for each in copying], now())
            except KafkaError as error:
                core.on_error(error, now())
        return ready.is_look_due

    async with AsyncExitStack() as stack:
        for each in runs:
            stack.push_async_callback(each.aclose)
            await each.start()
        names = ", ".join(each.flow.name for each in copying)
        _write(context, f"moldau mirror is up: {names}; Ctrl-C stops it.\n")
        core = SessionCore(now(), is_once=is_once, is_terminal=context.err.isatty())
        await Driver(runtime, "mirror", core.ready, act, lambda ready: ready.is_over).begin()


def _set_group_offsets(flow: Flow) -> str:
    """Write the checkpoints of a flow's groups and set their offsets on the target. Return a line
    with their numbers."""
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
        count = f"{counted(len(groups), 'group')}, {counted(offsets.set_offsets(groups), 'offset')}"
        return f"{flow.name}: {count} set on the target\n"
