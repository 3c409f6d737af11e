"""Runs tasks from their specs: one in a thread of the worker, or those of a process."""

from __future__ import annotations

import gc
import logging
import sys
from functools import partial
from typing import Final

from moldau.connect.api import SelfReadingSinkTask, SelfWritingSourceTask, SourceConnector
from moldau.connect.task.diagnosis import trace_of, without
from moldau.connect.task.link import Link
from moldau.connect.task.messages import Message, TaskSpec, dump, parse
from moldau.connect.task.runner import TaskRunner
from moldau.logging import Loggers
from moldau.logging.stdlib import StandardLines
from moldau.runtime.children import Mailbox, ParentPipe, start_thread
from moldau.runtime.interface import Clock
from moldau.runtime.real import RealClock

_CONNECTORS: Final = "moldau.connectors"
"""Lines of these loggers at INFO are written; of other libraries only warnings and errors."""
_RUN_BITS: Final = 32
_COLLECT_AFTER: Final = 20_000


def runner_for(spec: TaskSpec, link: Link, loggers: Loggers, clock: Clock) -> TaskRunner:
    """Return the runner for the kind of the task: sink, source, self-reading or self-writing."""
    from moldau.connect.installed.plugins import connector_class
    from moldau.connect.task.self_running import SelfReadingRunner, SelfWritingRunner
    from moldau.connect.task.sink import SinkRunner
    from moldau.connect.task.source import SourceRunner

    kind = connector_class(spec.connector_config)
    connector = kind()
    connector.props = dict(spec.connector_config)  # its task's class may depend on them
    task = connector.task_class()
    runner: type[TaskRunner] = SinkRunner
    if issubclass(task, SelfWritingSourceTask):
        runner = SelfWritingRunner
    elif issubclass(kind, SourceConnector):
        runner = SourceRunner
    elif issubclass(task, SelfReadingSinkTask):
        runner = SelfReadingRunner
    log = loggers.get(f"moldau.connect.{spec.connector}").bind(task=spec.task)
    return runner(spec, link, clock, log)


def live(spec: TaskSpec, link: Link, loggers: Loggers, clock: Clock) -> None:
    """Run the task until it is stopped or has failed, and report the end to the worker. A connector
    may write a value of its config into the log, and does not know that it stands for a reference:
    secrets are hidden there."""
    try:
        runner = runner_for(spec, link, loggers, clock)
    except Exception as error:
        link.notify("state", state="FAILED", trace=trace_of(error))
        link.notify("stopped")
        return
    with loggers.changed(lambda text: without(text, tuple(runner.secrets))):
        runner.run()


class HostedTasks:
    """The tasks of this process, by the numbers of their runs (`moldau.connect.worker.hosts`)."""

    def __init__(self, pipe: ParentPipe, loggers: Loggers, clock: Clock) -> None:
        self._pipe = pipe
        self._clock = clock
        self._loggers = loggers
        self._links: dict[int, Link] = {}
        self._orders: Mailbox[tuple[int, Message]] = Mailbox()

    def receive(self, line: bytes) -> None:
        """Handle a line from the worker. Called by the thread that reads the pipe."""
        parsed = parse(line)
        number, message = parsed["run"], parsed["message"]
        if message["type"] == "start":
            send = partial(self._send, number)
            self._links[number] = Link(send, first_question=number << _RUN_BITS)
            self._orders.put((number, message))
        elif message["type"] == "end":
            self._orders.put((number, message))
        elif (link := self._links.get(number)) is not None:
            link.deliver(message)

    def _send(self, number: int, message: Message) -> None:
        self._pipe.send(dump({"run": number, "message": message}))

    def serve(self) -> None:
        """Start tasks until the worker ends this process. Called by the main thread."""
        while (order := self._orders.take(None)) is not None:
            number, message = order
            if message["type"] == "end":
                return
            spec = TaskSpec.parse(message)
            run = partial(self._run, number, spec)
            if message.get("is_alone"):
                run()  # some libraries want the main thread
            else:
                start_thread(run, f"task {spec.id}")

    def _run(self, number: int, spec: TaskSpec) -> None:
        link = self._links[number]
        try:
            live(spec, link, self._loggers, self._clock)
        finally:
            del self._links[number]
            self._send(number, {"type": "ended"})


def live_in_process(pipe: ParentPipe) -> None:
    """Run the tasks of a process from start to end."""
    # Records come in batches of thousands: the default threshold of 700 objects collects too often.
    gc.set_threshold(_COLLECT_AFTER, 20, 20)
    clock = RealClock()
    loggers = Loggers(clock, sys.stderr.write)
    root = logging.getLogger()
    root.handlers[:] = [StandardLines(loggers)]
    root.setLevel(logging.WARNING)
    logging.getLogger(_CONNECTORS).setLevel(logging.INFO)
    tasks = HostedTasks(pipe, loggers, clock)
    pipe.listen(tasks.receive)
    tasks.serve()
