"""The audit log: what clients asked for, what was decided and why, as lines of JSON.

A decision is written when it is made, and not again while it is kept: once for each client, host,
operation and resource, until a rule changes. So a request that was decided before costs nothing. A
client that asks about very many names does not fill the log (`audit_shares`): a line says how many
of its decisions are left out. Such a line without a principal is about several clients.

Invariants: a line has no secret, since a decision knows none. Lines are written in order, in a
thread, so a slow disk delays no decision. A log that cannot be written is told of once, and stops
nothing: the next lines are tried again, and the first of them that is written comes behind a line
that says how many are missing. The file has at most FILE_BYTES_MAX bytes; the one before it is
kept.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from moldau.broker.decision.audit_shares import AuditShares
from moldau.broker.decision.context import ANONYMOUS
from moldau.errors import ConfigError
from moldau.runtime.names import network_of

if TYPE_CHECKING:
    from moldau.broker.decision.standard_authorizer import Verdict
    from moldau.protocol.rights import Right
    from moldau.runtime import Runtime
    from moldau.runtime.files import File

FILE_BYTES_MAX: Final = 64 << 20
OLD: Final = ".1"
LEFT_OUT: Final = "left_out"
"""The field of a line that says how many decisions are left out."""
_ANONYMOUS: Final = str(ANONYMOUS)
_About: TypeAlias = dict[str, str | None]


class _Line(NamedTuple):
    """A line of the log, and the decisions that it is about."""

    text: bytes
    is_allowed: bool
    decisions: int = 1


class AuditLog:
    """The file of decisions."""

    def __init__(
        self,
        runtime: Runtime,
        path: str,
        on_failure: Callable[[OSError], object],
        on_recovery: Callable[[int], object] = lambda missing: None,
    ) -> None:
        """Open the file, or make it. Raise ConfigError if that fails. `on_recovery` is told how
        many decisions are missing when the file can be written again."""
        self._runtime = runtime
        self._path = path
        self._on_failure = on_failure
        self._on_recovery = on_recovery
        self._has_failed = False
        self._has_turned = False
        """Whether the full file has its old name already, but no new one could be begun."""
        self._shares = AuditShares()
        self._lines: list[_Line] = []
        """The lines that are not written yet."""
        self._missing = {False: 0, True: 0}
        """The decisions that could not be written, by whether they allow."""
        self._is_writing = False
        self._writing: Awaitable[None] | None = None
        try:
            self._file = self._open()
        except OSError as error:
            why = error.strerror or str(error)
            raise ConfigError("the audit log cannot be written", path=path, why=why) from error

    def _open(self) -> File:
        return self._runtime.files.open(self._path, "write")

    def note(
        self, client: tuple[str, str], right: Right, name: str, verdict: Verdict, *, counts: bool
    ) -> None:
        """Write a decision about a client (principal, host). `counts` says whether it is followed:
        in a dry run a denied request is served."""
        principal, host = client
        clock = self._runtime.clock
        time = self._time()
        of_client = _about(time, principal, host)
        line = _line(
            {
                **of_client,
                "operation": right.operation.name,
                "resource_type": right.resource.name,
                "resource": name,
                "allowed": verdict.is_allowed,
                "enforced": counts,
                "cause": verdict.cause,
                "rule": None if verdict.rule is None else str(verdict.rule),
            }
        )
        is_network = principal == _ANONYMOUS
        share = self._shares.on_line(
            network_of(host) if is_network else principal,
            len(line),
            clock.monotonic(),
            is_allowed=verdict.is_allowed,
            is_network=is_network,
        )
        self._lines += _left_out(_about(time), self._shares.take_left_out())
        self._lines += _left_out(of_client, {verdict.is_allowed: share.left_out})
        if share.is_written:
            self._lines.append(_Line(line, verdict.is_allowed))
        if self._lines and not self._is_writing:
            self._is_writing = True
            self._writing = self._runtime.spawn(self._write(), name="audit-log")

    def _time(self) -> str:
        return datetime.fromtimestamp(self._runtime.clock.wall_ms() / 1000, UTC).isoformat()

    async def aclose(self) -> None:
        """Write what is left, and close the file."""
        if self._writing is not None:
            await self._writing
        if self._has_failed:
            await self._write_some()
        self._file.close()

    async def _write(self) -> None:
        try:
            while self._lines:
                await self._write_some()
        finally:
            self._is_writing = False

    async def _write_some(self) -> None:
        """Write the lines that wait, or count them as missing."""
        lines, self._lines = self._lines, []
        missing, self._missing = self._missing, {False: 0, True: 0}
        left = [*_left_out(_about(self._time()), missing), *lines]
        try:
            await self._runtime.run_blocking(self._append, left)
        except OSError as error:
            for each in left:
                self._missing[each.is_allowed] += each.decisions
            if not self._has_failed:
                self._has_failed = True
                self._on_failure(error)
        else:
            if self._has_failed:
                self._has_failed = False
                self._on_recovery(sum(missing.values()))

    def _append(self, lines: list[_Line]) -> None:
        """Append lines, to each file as many as fit, and remove them from `lines`. Raise OSError
        with those that are not written still there. Runs in a thread, and never twice at once."""
        while lines:
            size, count = self._file.size, 0
            for each in lines:
                size += len(each.text)
                if size > FILE_BYTES_MAX and (count or self._file.size):
                    break
                count += 1
            if count:
                self._store([each.text for each in lines[:count]])
                del lines[:count]
            else:
                self._turn()

    def _store(self, lines: list[bytes]) -> None:
        """Append whole lines, or none."""
        end = self._file.size
        try:
            self._file.append_parts(lines)
        except OSError:
            self._file.truncate(end)
            raise

    def _turn(self) -> None:
        """Keep the full file as the old one, and begin a new one. If only the first works, the next
        call does the second."""
        if not self._has_turned:
            self._runtime.files.rename(self._path, self._path + OLD)
            self._has_turned = True
        full, self._file = self._file, self._open()
        self._has_turned = False
        full.close()


def _about(time: str, principal: str | None = None, host: str | None = None) -> _About:
    """Return what a line begins with. Without a client it is about several."""
    return {"time": time, "principal": principal, "host": host}


def _left_out(about: _About, counts: Mapping[bool, int]) -> list[_Line]:
    """Return lines that say how many decisions are left out, of those that allow and others."""
    return [
        _Line(_line({**about, "allowed": is_allowed, LEFT_OUT: count}), is_allowed, count)
        for is_allowed, count in counts.items()
        if count
    ]


def _line(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts).encode() + b"\n"
