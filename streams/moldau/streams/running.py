"""Run an app's plan in this process until it is stopped.

`run_plan` runs on the caller's event loop. `run_process` runs a loop of its own, for a whole
process or for a thread without a loop. On the main thread it stops on SIGTERM and Ctrl-C.

An app with patterns as inputs restarts when the topics that match change. The worker commits and
leaves its group first, so a change costs what a rebalance costs. A deleted topic of a pattern ends
the worker, not the app: the next worker reads what matches then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.config import Problem
from moldau.config.problems import BadSettings
from moldau.deferred import dataclass
from moldau.link.http.protection import HttpProtection, load_peer_context, load_protection
from moldau.link.telemetry.metrics import metrics_push, metrics_target
from moldau.link.telemetry.traces import TracePush, TraceSettings, trace_settings
from moldau.runtime import Runtime
from moldau.runtime.children import process_environment
from moldau.runtime.restarts import Restarts
from moldau.streams.engine.contract import RunsPartition
from moldau.streams.engine.global_table import LookupTable
from moldau.streams.engine.task import Task, TaskSettings
from moldau.streams.plan.dead_letters import with_dead_letters
from moldau.streams.plan.patterns import matches, patterns_of, resolved
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.problems import InputDeleted, MissingTopics
from moldau.streams.query.api import Api
from moldau.streams.query.gate import Running
from moldau.streams.query.server import QueryServer
from moldau.streams.query.supervised import SupervisedApi, SupervisorLink
from moldau.streams.query.watch import ENDED, WatchPages
from moldau.streams.replies.asker import Asker
from moldau.streams.state.backing import Backing
from moldau.streams.worker import settings as rows
from moldau.streams.worker.addresses import advertised, listen_place, metrics_place, names_of
from moldau.streams.worker.door import topic_names
from moldau.streams.worker.reports import Reports
from moldau.streams.worker.settings import AppSettings, app_settings
from moldau.streams.worker.state_directory import StateDirectory
from moldau.streams.worker.worker import Worker

if TYPE_CHECKING:
    import ssl

    from moldau.link.telemetry.otlp import OtlpTarget

TopicNames = Callable[[], Awaitable[set[str]]]
RunPlan = Callable[[Plan], Coroutine[Any, Any, None]]
_LOOK_AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """The place of a worker among those of its machine: its index, reports, and app's handle."""

    index: int = 0
    reports: Reports = field(default_factory=Reports)
    running: Running | None = None
    """The app's handle on this worker, for queries of its stores."""
    traces: TraceSettings | None = None
    """Where spans of records go, if traces are on."""
    otlp: OtlpTarget | None = None
    """Where metrics are pushed to, if they are."""
    supervisor: SupervisorLink | None = None
    """The supervisor of this process, if it has one."""


async def run_plan(
    plan: Plan, settings: AppSettings, runtime: Runtime, place: WorkerSlot | None = None
) -> None:
    """Run the plan until cancelled; then commit, leave the group and return."""
    place = place or WorkerSlot()
    life = place.reports.life
    life.begin()
    plan = with_dead_letters(plan, settings.own[rows.dead_letter_topic])
    with ExitStack() as left:
        left.push(lambda kind, *_: life.end(is_failure=kind is not None))
        work = asyncio.ensure_future(_run_plan(plan, settings, runtime, place))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            life.stop()
            work.cancel()
            await work


async def _run_plan(plan: Plan, settings: AppSettings, runtime: Runtime, place: WorkerSlot) -> None:
    if patterns_of(plan) and settings.is_streams_group:
        why = (
            "an app that reads topics by a pattern needs classic: each topic that comes would be a"
        )
        problem = Problem(rows.group_protocol.name, f"{why} new topology of its streams group")
        raise BadSettings([problem])
    settings = settings.of_worker(place.index)
    root = settings.own[rows.state_dir]
    async with AsyncExitStack() as left:
        directory = StateDirectory.open(root, plan.app, place.index, runtime)
        left.callback(directory.close)
        left.callback(place.reports.ended)
        pages = WatchPages()
        server: QueryServer | None = None
        protection, peers = _protection(settings, runtime)
        if (listen := listen_place(settings, place.index)) is not None:
            server = QueryServer(runtime, protection, peers)
            left.push_async_callback(server.aclose)
            bound = listen._replace(port=await server.listen(*listen, names_of(settings)))
            settings = replace(settings, server=advertised(settings, bound, place.index))
            place.reports.listening(
                f"{protection.scheme}://{settings.server}",
                is_open=bound.is_open and protection.is_open,
            )
        if (listen := metrics_place(settings, place.index)) is not None:
            metrics = QueryServer(runtime, protection, option="--metrics")
            left.push_async_callback(metrics.aclose)
            bound = listen._replace(port=await metrics.listen(*listen, names_of(settings)))
            metrics.serve(pages)
            place.reports.measured(
                f"{protection.scheme}://{bound}", is_open=bound.is_open and protection.is_open
            )
        if place.traces is not None:
            push = TracePush(runtime, place.traces, _resource(plan.app, directory.member))
            push.start()
            left.push_async_callback(push.aclose)
            settings = replace(settings, tracer=push.tracer)
        if place.otlp is not None:
            resource = _resource(plan.app, directory.member)
            pushed = metrics_push(runtime, place.otlp, resource, pages.metrics)
            pushed.start()
            left.push_async_callback(pushed.finish)
        run = partial(_run_worker, settings, runtime, directory, place, (server, pages))
        if not patterns_of(plan):
            await run(plan)
            return
        names = await left.enter_async_context(topic_names(settings, runtime))
        refresh_s = settings.own[rows.pattern_refresh_ms] / 1000
        await run_as_topics_come(plan, names, run, refresh_s, place.reports)


def _resource(app: str, member: str) -> dict[str, str]:
    """Return what spans and pushed metrics say of this worker; OTEL_SERVICE_NAME and
    OTEL_RESOURCE_ATTRIBUTES win."""
    return {"service.name": app, "service.instance.id": member}


def traces_of(settings: AppSettings, environment: Mapping[str, str]) -> TraceSettings | None:
    """Return where spans go, as the settings or the variables of OpenTelemetry say. Raise
    ConfigError."""
    endpoint, ratio = settings.own[rows.traces_endpoint], settings.own[rows.traces_ratio]
    return trace_settings(endpoint or None, ratio, environment, rows.traces_endpoint.name)


def otlp_of(settings: AppSettings, environment: Mapping[str, str]) -> OtlpTarget | None:
    """Return where metrics are pushed to, as the settings or the variables of OpenTelemetry say.
    Raise ConfigError."""
    return metrics_target(settings.own[rows.metrics_endpoint] or None, environment)


def _protection(
    settings: AppSettings, runtime: Runtime
) -> tuple[HttpProtection, Callable[[], ssl.SSLContext] | None]:
    """Return the protection of the queries, and the TLS context of requests to other workers."""
    path = settings.own[rows.queries_http_config]
    if not path:
        return HttpProtection(), None
    return load_protection(path, runtime.clock), load_peer_context(path, runtime.clock)


async def _run_worker(
    settings: AppSettings,
    runtime: Runtime,
    directory: StateDirectory,
    place: WorkerSlot,
    served: tuple[QueryServer | None, WatchPages],
    plan: Plan,
) -> None:
    """Run a worker, and another one after each that is to be replaced."""
    made = partial(make_task, task_settings(plan, settings))
    restarts = Restarts()
    asker = Asker.of(plan.app, settings, runtime)
    async with AsyncExitStack() as left:
        left.push_async_callback(asker.aclose)
        left.push(lambda kind, *_: kind is asyncio.CancelledError)
        while True:
            restarts.on_up(runtime.clock.monotonic_ns() // 1_000_000)
            worker = Worker(plan, made, settings, directory, runtime, place.reports)
            await _run_one(worker, settings, place, served, asker)
            if worker.failure is None:
                return
            pause_ms = restarts.on_failure(runtime.clock.monotonic_ns() // 1_000_000)
            assert pause_ms is not None, "restarts have no end"
            place.reports.replaced(str(worker.failure), pause_ms / 1000)
            await asyncio.sleep(pause_ms / 1000)


async def _run_one(
    worker: Worker,
    settings: AppSettings,
    place: WorkerSlot,
    served: tuple[QueryServer | None, WatchPages],
    asker: Asker,
) -> None:
    server, pages = served
    with ExitStack() as left:
        if place.running is not None:
            place.running.attach(worker.queries, asker)
            left.callback(place.running.detach)
        pages.watch(worker.metrics.snapshot, lambda: worker.readiness.waits_for)
        left.callback(pages.watch, worker.metrics.last, lambda: ENDED)
        if server is not None:
            queries, figures = worker.queries, worker.figures.read
            life = place.reports.life
            api = Api(queries, settings.server, server.forward, pages, figures, life)
            link = place.supervisor
            server.serve(api if link is None else SupervisedApi(api, link))
        await worker.run()


def run_process(plan: Plan, given: Mapping[str, object], running: Running | None = None) -> None:
    """Run the plan on an event loop of its own until a signal arrives. `given` has settings by
    Kafka's names, `bootstrap.servers` at least."""
    settings = checked(given)
    place = _only_worker(settings, running)

    async def main(runtime: Runtime) -> None:
        await until_stopped(run_plan(plan, settings, runtime, place))

    from moldau.runtime.real import run

    run(main, node=plan.app)


def _only_worker(settings: AppSettings, running: Running | None) -> WorkerSlot:
    environment = process_environment()
    traces, otlp = traces_of(settings, environment), otlp_of(settings, environment)
    reports = Reports(None if running is None else running.life)
    return WorkerSlot(0, reports, running, traces, otlp)


async def run_here(plan: Plan, given: Mapping[str, object], running: Running | None = None) -> None:
    """Run the plan on this event loop until cancelled."""
    settings = checked(given)
    place = _only_worker(settings, running)

    from moldau.runtime.real import RealRuntime

    async with RealRuntime(plan.app) as runtime:
        await run_plan(plan, settings, runtime, place)


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` until it ends or a signal cancels it. Only the main thread receives signals."""
    from moldau.runtime.signals import until_signal

    await until_signal(work)


def checked(given: Mapping[str, object]) -> AppSettings:
    """Return the app's settings. Raise BadSettings if `bootstrap.servers` is missing."""
    if not given.get("bootstrap.servers"):
        raise BadSettings([Problem("bootstrap.servers", "must be given: host:port of a broker")])
    return app_settings(given)


def task_settings(plan: Plan, settings: AppSettings) -> TaskSettings:
    """Return the settings of each task. The stores of the plan share the cache equally."""
    stores = sum(len(program.stores) for program in plan.programs) + len(plan.global_tables)
    return TaskSettings(
        cache_bytes=settings.own[rows.cache_max_bytes] // max(1, stores),
        max_task_idle_ms=settings.own[rows.max_task_idle_ms],
        tracer=settings.tracer,
    )


def make_task(
    settings: TaskSettings,
    program: Program,
    partition: int,
    backings: Mapping[str, Backing],
    texts: Sequence[str],
    global_tables: Mapping[str, LookupTable],
) -> RunsPartition:
    """Make a task of the engine. With `settings` bound it is a `MakeTask`."""
    return Task(
        program, partition, backings, settings=settings, metadata=texts, global_tables=global_tables
    )


async def run_as_topics_come(
    plan: Plan, names: TopicNames, run: RunPlan, refresh_s: float, reports: Reports
) -> None:
    """Run until cancelled; then stop the worker in order. `run` runs a plan without patterns."""
    current: dict[str, tuple[str, ...]] = {}
    worker: asyncio.Future[None] | None = None
    with suppress(asyncio.CancelledError):
        try:
            while True:
                found = matches(plan, await names())
                missing = [each for each, topics in found.items() if not topics]
                if missing:
                    reports.waiting_for(missing)
                elif found != current:
                    await _stop(worker, current, reports)
                    reports.matched(found)
                    current = found
                    worker = asyncio.ensure_future(run(resolved(plan, found)))
                if worker is None:
                    await asyncio.sleep(refresh_s)
                    continue
                await asyncio.wait([worker], timeout=refresh_s)
                if worker.done():
                    if not await _has_lost_match(worker, current, reports):
                        return
                    worker, current = None, {}
                    await asyncio.sleep(min(refresh_s, _LOOK_AGAIN_S))
        finally:
            await _stop(worker, current, reports)


async def _stop(
    worker: asyncio.Future[None] | None, found: Mapping[str, Sequence[str]], reports: Reports
) -> None:
    """Cancel the worker, which commits and returns. Raise its error if it has failed."""
    if worker is not None:
        worker.cancel()
        await _has_lost_match(worker, found, reports)


async def _has_lost_match(
    worker: asyncio.Future[None], found: Mapping[str, Sequence[str]], reports: Reports
) -> bool:
    """Wait for the end of the worker. Return whether topics of patterns are gone; raise any other
    error."""
    try:
        await worker
    except (InputDeleted, MissingTopics) as error:
        if not {name for topics in found.values() for name in topics}.issuperset(error.topics):
            raise
        reports.unmatched(error.topics)
        return True
    return False
