"""The runner of a Spark connector: `python -m moldau.connectors.spark.runner`.

It reads the message `start`, opens a session, starts the job and sends its progress, until it gets
`stop` or its task is gone. The same module runs for each `spark.deploy`; with `submit`,
`spark-submit` calls `main`.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any, Final

from moldau.connectors.spark.checkpoint.folder import CheckpointFolder
from moldau.connectors.spark.deployments import close_session, open_session
from moldau.connectors.spark.failures import (
    cause_of,
    cause_with_hint,
    is_permanent,
    is_worker_timeout,
)
from moldau.connectors.spark.jobs import create_job, parse_config
from moldau.connectors.spark.messages import (
    PAUSE,
    RESUME,
    START,
    STOP,
    Message,
    encode_message,
    parse_message,
)
from moldau.runtime.children import Mailbox, open_parent_pipe, open_parent_socket

SendLine = Callable[[bytes], None]

LOG: Final = logging.getLogger("moldau.connectors.spark")
_POLL_S: Final = 0.25
_TRACE_CHARS: Final = 8_000
_RETRIES: Final = 5


class Runner:
    """One session and its job. One thread makes all calls."""

    def __init__(self, start_message: Message, send_line: SendLine) -> None:
        self._send_line = send_line
        self._config = parse_config(start_message)
        self._folder = CheckpointFolder(
            self._config.checkpoint_location, start_message["name"], start_message.get("topic")
        )
        self._job = create_job(start_message, self._folder, self._send)
        self._session: Any = None
        self._retries_left = _RETRIES

    def send_event(self, kind: str, **fields: Any) -> None:
        """Send a message of this type to the task."""
        self._send({"type": kind, **fields})

    def _send(self, message: Message) -> None:
        self._send_line(encode_message(message))

    def open(self) -> None:
        """Acquire the checkpoint's lock, then open the session.

        ConfigError with one line if another query works on the checkpoint, or something is missing.
        """
        self._folder.acquire_for_query()
        self._session = open_session(self._config, self._folder)
        self.send_event("session", version=self._session.version, deploy=self._config.deploy)

    def start_job(self) -> None:
        """Start the job from its checkpoint. If the machine was too busy to start it, try again up
        to `_RETRIES` times in the life of the runner."""
        while (error := _failure_of(self._try_start_job)) is not None:
            self._prepare_retry(error)

    def _try_start_job(self) -> None:
        self.send_event("started", **self._job.start(self._session))

    def stop_job(self) -> None:
        """Stop the job. Its checkpoint stays."""
        self._job.stop()

    def poll(self) -> None:
        """Send the job's new progress. Raise the error that ended the job, or start the job again
        if that can help. ConfigError if another process has taken the checkpoint over."""
        self._folder.lock.check()
        error = _failure_of(self._job.poll)
        if error is not None:
            self._prepare_retry(error)
            self.start_job()

    def _prepare_retry(self, error: Exception) -> None:
        """Stop the job for another try. Raise the error if a retry cannot help, or none is left."""
        if not is_worker_timeout(error) or self._retries_left == 0:
            raise error
        self._retries_left -= 1
        LOG.warning("%s: starting the query again: %s", self._folder.address.name, cause_of(error))
        self.stop_job()

    def close(self) -> None:
        """Stop the job, close the session and release the checkpoint's lock, in this order."""
        self.stop_job()
        if self._session is not None:
            close_session(self._session, self._config, self._folder)
            self._session = None
        self._folder.lock.release()


def _failure_of(step: Callable[[], object]) -> Exception | None:
    """Call the step and return the exception that it raised. Spark may raise any exception."""
    try:
        step()
    except Exception as error:
        return error
    return None


def serve(messages: Mailbox[Message], send_line: SendLine) -> None:
    """Run the job of the message `start` until the message `stop` or a failure.

    Send `failed` for a failure, and `stopped` at the end. Return at once if the first message is
    another one.
    """
    start_message = messages.take(None)
    assert start_message is not None
    if start_message["type"] != START:
        return
    runner: Runner | None = None
    try:
        runner = Runner(start_message, send_line)
        runner.open()
        if start_message.get("is_paused"):
            runner.send_event("paused")
        else:
            runner.start_job()
        _handle_messages(runner, messages)
    except Exception as error:
        failed = {
            "type": "failed",
            "cause": cause_with_hint(error),
            "trace": _trace(error),
            "is_permanent": is_permanent(error),
        }
        send_line(encode_message(failed))
    finally:
        if runner is not None:
            _close(runner)
    send_line(encode_message({"type": "stopped"}))


def _close(runner: Runner) -> None:
    """Close the runner. After a failure its session may be gone, so an error is only logged."""
    error = _failure_of(runner.close)
    if error is not None:
        LOG.warning("the session could not be closed in order: %s", cause_of(error))


def _handle_messages(runner: Runner, messages: Mailbox[Message]) -> None:
    """Handle messages of the task until `stop`, and poll the job while there are none."""
    while True:
        message = messages.take(_POLL_S)
        if message is None:
            runner.poll()
        elif message["type"] == STOP:
            return
        elif message["type"] == PAUSE:
            runner.stop_job()
            runner.send_event("paused")
        elif message["type"] == RESUME:
            runner.start_job()


def _trace(error: BaseException) -> str:
    """Return the begin of the traceback, for the status. The rest of it is Java's frames."""
    return "".join(traceback.format_exception(error))[:_TRACE_CHARS]


def main(path: str | None = None) -> None:
    """Take over the pipe to the task before anything is printed, then serve the task.

    With `path`, connect to the socket on which the task listens.
    """
    pipe = open_parent_pipe() if path is None else open_parent_socket(path)
    messages: Mailbox[Message] = Mailbox()
    pipe.listen(lambda line: messages.put(parse_message(line)))
    serve(messages, pipe.send)


if __name__ == "__main__":
    main()
