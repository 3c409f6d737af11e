"""The runner of a Spark connector: `python -m moldau.connectors.spark.runner`.

It reads a `start` message, opens a session, starts the query and tells what becomes of it, until it
is told to stop or its task is gone. The same module runs for each `spark.deploy`; with `submit`,
`spark-submit` calls `main`.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any, Final

from moldau.connectors.spark.checkpoints import CheckpointFolder
from moldau.connectors.spark.deployments import close_session, open_session
from moldau.connectors.spark.failures import cause_of, hinted_cause_of, is_late_worker
from moldau.connectors.spark.jobs import config_of, job_of
from moldau.connectors.spark.messages import PAUSE, RESUME, START, STOP, Message, dump, parse
from moldau.runtime.children import Mailbox, open_parent_pipe, open_parent_socket

Send = Callable[[bytes], None]

LOG: Final = logging.getLogger("moldau.connectors.spark")
_LOOK_S: Final = 0.25
_TRACE_CHARS: Final = 8_000
_TRIES: Final = 5


class Runner:
    """One session and its job. One thread makes all calls."""

    def __init__(self, start: Message, send: Send) -> None:
        self._write = send
        self._config = config_of(start)
        self._folder = CheckpointFolder(
            self._config.checkpoint_location, start["name"], start.get("topic")
        )
        self._name = self._folder.name
        self._job = job_of(start, self._folder, self._send)
        self._session: Any = None
        self._tries_left = _TRIES

    def tell(self, kind: str, **facts: Any) -> None:
        """An event for the task."""
        self._send({"type": kind, **facts})

    def _send(self, message: Message) -> None:
        self._write(dump(message))

    def open(self) -> None:
        """The session; ConfigError in one line for what is missing."""
        self._folder.lock()
        self._session = open_session(self._config, self._folder)
        self.tell("session", version=self._session.version, deploy=self._config.deploy)

    def begin(self) -> None:
        """Starts the job from its checkpoint. One that the machine was too busy to start is started
        again a few times."""
        while (error := _failure_of(self._begin)) is not None:
            self._halt_for_another_try(error)

    def _begin(self) -> None:
        self.tell("started", **self._job.begin(self._session))

    def halt(self) -> None:
        """Stops the job; its checkpoint stays."""
        self._job.halt()

    def look(self) -> None:
        """Tells what is new of the job; raises what ended it, unless it may be started again."""
        self._folder.check_lock()
        error = _failure_of(self._job.look)
        if error is not None:
            self._halt_for_another_try(error)
            self.begin()

    def _halt_for_another_try(self, error: Exception) -> None:
        """Raises the error if another try would not help, or too many were made."""
        if not is_late_worker(error) or self._tries_left == 0:
            raise error
        self._tries_left -= 1
        LOG.warning("%s: it is started again: %s", self._name, cause_of(error))
        self.halt()

    def close(self) -> None:
        """Ends the session."""
        self.halt()
        if self._session is not None:
            close_session(self._session, self._config, self._folder)
            self._session = None
        self._folder.release()


def _failure_of(step: Callable[[], object]) -> Exception | None:
    """What the step has raised: Spark may fail in any way."""
    try:
        step()
    except Exception as error:
        return error
    return None


def serve(messages: Mailbox[Message], send: Send) -> None:
    """Until `stop` or a failure."""
    start = messages.take(None)
    assert start is not None
    if start["type"] != START:
        return
    runner: Runner | None = None
    try:
        runner = Runner(start, send)
        runner.open()
        if start.get("is_paused"):
            runner.tell("paused")
        else:
            runner.begin()
        _obey(runner, messages)
    except Exception as error:
        send(dump({"type": "failed", "cause": hinted_cause_of(error), "trace": _trace(error)}))
    finally:
        if runner is not None:
            _close(runner)
    send(dump({"type": "stopped"}))


def _close(runner: Runner) -> None:
    """What failed may not be there to be closed any more."""
    error = _failure_of(runner.close)
    if error is not None:
        LOG.warning("the session did not end in order: %s", cause_of(error))


def _obey(runner: Runner, messages: Mailbox[Message]) -> None:
    while True:
        message = messages.take(_LOOK_S)
        if message is None:
            runner.look()
        elif message["type"] == STOP:
            return
        elif message["type"] == PAUSE:
            runner.halt()
            runner.tell("paused")
        elif message["type"] == RESUME:
            runner.begin()


def _trace(error: BaseException) -> str:
    """For the status: its begin says where, and what is left out is Java's."""
    return "".join(traceback.format_exception(error))[:_TRACE_CHARS]


def main(path: str | None = None) -> None:
    """Takes the pipe over before anything could print; with `path`, the task listens there."""
    pipe = open_parent_pipe() if path is None else open_parent_socket(path)
    messages: Mailbox[Message] = Mailbox()
    pipe.listen(lambda line: messages.put(parse(line)))
    serve(messages, pipe.send)


if __name__ == "__main__":
    main()
