"""Runs a task from its spec, in a process or in a thread."""

from __future__ import annotations

import gc
import logging
import sys
from typing import Final

from moldau.connect.api import SelfReadingSinkTask, SelfWritingSourceTask, SourceConnector
from moldau.connect.task.diagnosis import trace_of
from moldau.connect.task.link import Link
from moldau.connect.task.messages import Message, TaskSpec, dump, parse
from moldau.connect.task.runner import TaskRunner
from moldau.logging import Loggers
from moldau.logging.stdlib import StandardLines
from moldau.runtime.children import ParentPipe
from moldau.runtime.real import RealClock

_CONNECTORS: Final = "moldau.connectors"
"""Lines of these loggers at INFO are written; of other libraries only warnings and errors."""
_START_S: Final = 60.0
_COLLECT_AFTER: Final = 20_000


def runner_for(spec: TaskSpec, link: Link, loggers: Loggers) -> TaskRunner:
    """Return the runner for the kind of the task: sink, source, self-reading or self-writing."""
    from moldau.connect.task.self_reading import SelfReadingRunner
    from moldau.connect.task.self_writing import SelfWritingRunner
    from moldau.connect.task.sink import SinkRunner
    from moldau.connect.task.source import SourceRunner
    from moldau.connect.worker.plugins import connector_class

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
    return runner(spec, link, RealClock(), log)


def live(spec: TaskSpec, link: Link, loggers: Loggers) -> None:
    """Run the task until it is stopped or has failed, and report the end to the worker."""
    try:
        runner = runner_for(spec, link, loggers)
    except Exception as error:
        link.tell("state", state="FAILED", trace=trace_of(error))
        link.tell("stopped")
        return
    runner.run()


def live_in_process(pipe: ParentPipe) -> None:
    """Run a task's process from start to end."""
    # Records come in batches of thousands: the default threshold of 700 objects collects too often.
    gc.set_threshold(_COLLECT_AFTER, 20, 20)
    loggers = Loggers(RealClock(), sys.stderr.write)
    root = logging.getLogger()
    root.handlers[:] = [StandardLines(loggers)]
    root.setLevel(logging.WARNING)
    logging.getLogger(_CONNECTORS).setLevel(logging.INFO)

    def send(message: Message) -> None:
        pipe.send(dump(message))

    link = Link(send)
    pipe.listen(lambda line: link.deliver(parse(line)))
    first = link.take(_START_S)
    if first is not None and first["type"] == "start":
        live(TaskSpec.parse(first), link, loggers)
