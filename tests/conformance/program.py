"""A client as a process: jobs go in as lines of JSON, answers come out as lines of JSON.

A job has `do`; an answer has `ok` with what was asked for, or `error` with the client's words. The
process lives as long as the test session: a JVM that starts once costs no test anything.

Jobs, `bootstrap` in each of them:

    produce   topic partition records codec acks idempotent      -> offsets (-1 with acks 0)
    consume   topic partition start count read_committed         -> records
    offset    topic partition at: earliest, latest or a time     -> offset (-1: no such record)
    create    topic partitions configs                           -> true
    describe  topic                                              -> partitions
    grow      topic partitions                                   -> true
    configs   topic                                              -> {name: value}
    alter     topic name value                                   -> true
    trim      topic partition before                             -> true
    delete    topic                                              -> true
    topics                                                       -> names
    cluster                                                 -> id and brokers: [id, host, port] each
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from tests.broker.settings.cases import is_own
from tests.conformance.records import (
    Record,
    record_from_json,
    record_to_json,
    sample,
    stored,
    to_line,
    without_null_headers,
)

_ANSWER_TIMEOUT_S: Final = 60.0
_END_TIMEOUT_S: Final = 10.0


class ProgramFailed(Exception):
    """The client told of an error, or died, or did not answer; the text has its words."""


class Program:
    """A running client. One job at a time."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self._process = subprocess.Popen(  # noqa: S603 - a client's program of ours
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=folder,
        )
        self._last_words: deque[str] = deque(maxlen=40)
        assert self._process.stderr is not None
        self._listener = threading.Thread(target=self._listen, args=(self._process.stderr,))
        self._listener.start()

    def ask(self, do: str, **job: Any) -> Any:
        """What the client answers to a job. ProgramFailed with its words if it cannot."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Timer(_ANSWER_TIMEOUT_S, process.kill)
        late.start()
        try:
            process.stdin.write(to_line({"do": do, **job}))
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            late.cancel()
        if not line:
            process.kill()
            process.wait()
            self._listener.join()
            raise ProgramFailed(f"{self.name} ended in {do}: {' '.join(self._last_words)}")
        answer: Mapping[str, Any] = json.loads(line)
        if "error" in answer:
            raise ProgramFailed(f"{self.name}, {do}: {answer['error']}")
        return answer["ok"]

    def close(self) -> None:
        """Ends it: by the end of its input, or killed when that does not do."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._listener.join()

    def _listen(self, errors: IO[str]) -> None:
        with errors:
            self._last_words.extend(errors)


class Client:
    """A client at work on one broker, in words of records instead of JSON.

    `tells` makes of a stored record what this client lets its user see of it.
    """

    def __init__(
        self,
        program: Program,
        bootstrap: str,
        sends_null_headers: bool,
        tells: Callable[[Record], Record],
    ) -> None:
        self.name = program.name
        self._program = program
        self._bootstrap = bootstrap
        self._sends_null_headers = sends_null_headers
        self._tells = tells

    def sample(self, label: str, count: int = 6) -> list[Record]:
        """As `records.sample`, without what this client cannot send."""
        records = [self._tells(each) for each in sample(label, count)]
        return records if self._sends_null_headers else [*map(without_null_headers, records)]

    def sees(self, records: Sequence[Record], first_offset: int = 0) -> list[Record]:
        """What it tells of records that are stored one behind the other from that offset on."""
        return [self._tells(each) for each in stored(records, first_offset)]

    def ask(self, do: str, **job: Any) -> Any:
        return self._program.ask(do, bootstrap=self._bootstrap, **job)

    def settings(self, topic: str) -> dict[str, str]:
        """Return the topic's settings, without our own."""
        told = self.ask("configs", topic=topic)
        return {name: value for name, value in told.items() if not is_own(name)}

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> list[int]:
        """Their offsets; -1 each when nothing is acknowledged."""
        offsets = self.ask(
            "produce",
            topic=topic,
            partition=partition,
            records=[record_to_json(each) for each in records],
            codec=codec,
            acks=acks,
            idempotent=idempotent,
        )
        return [int(each) for each in offsets]

    def consume(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        start: int = 0,
        read_committed: bool = False,
    ) -> list[Record]:
        """The first `count` records from `start` on; it fails when fewer come."""
        told = self.ask(
            "consume",
            topic=topic,
            partition=partition,
            start=start,
            count=count,
            read_committed=read_committed,
        )
        return [record_from_json(each) for each in told]

    def offset(self, topic: str, at: str | int, partition: int = 0) -> int:
        """Of `earliest`, `latest` or the first record of a time on; -1 when there is none."""
        return int(self.ask("offset", topic=topic, partition=partition, at=at))
