"""The audit log: what clients asked for, what was decided and why, as lines of JSON.

A decision is written when it is made, and not again while it is kept: once for each client, host,
operation and resource, until a rule changes. So the log is bounded by what clients do, and a
request that was decided before costs nothing.

Invariants: a line has no secret, since a decision knows none. A log that cannot be written is told
of once, and stops nothing. The file has at most FILE_BYTES_MAX bytes; the one before it is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from moldau.errors import ConfigError

if TYPE_CHECKING:
    from moldau.broker.decision.authorizer import Right
    from moldau.broker.decision.standard_authorizer import Verdict
    from moldau.runtime.files import File, Files

FILE_BYTES_MAX: Final = 64 << 20
OLD: Final = ".1"


class AuditLog:
    """The file of decisions."""

    def __init__(
        self,
        files: Files,
        path: str,
        now_ms: Callable[[], int],
        on_failure: Callable[[OSError], object],
    ) -> None:
        """Open the file, or make it. Raise ConfigError if that fails."""
        self._files = files
        self._path = path
        self._now_ms = now_ms
        self._on_failure = on_failure
        self._has_failed = False
        try:
            self._file = self._open()
        except OSError as error:
            why = error.strerror or str(error)
            raise ConfigError("the audit log cannot be written", path=path, why=why) from error

    def _open(self) -> File:
        return self._files.open(self._path, "write")

    def note(
        self, client: tuple[str, str], right: Right, name: str, verdict: Verdict, *, counts: bool
    ) -> None:
        """Write a decision about a client (principal, host). `counts` says whether it is followed:
        in a dry run a denied request is served."""
        principal, host = client
        facts = {
            "time": datetime.fromtimestamp(self._now_ms() / 1000, UTC).isoformat(),
            "principal": principal,
            "host": host,
            "operation": right.operation.name,
            "resource_type": right.resource.name,
            "resource": name,
            "allowed": verdict.is_allowed,
            "enforced": counts,
            "cause": verdict.cause,
            "rule": None if verdict.rule is None else str(verdict.rule),
        }
        line = json.dumps(facts).encode() + b"\n"
        try:
            if self._file.size + len(line) > FILE_BYTES_MAX:
                self._turn()
            self._file.append(line)
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                self._on_failure(error)

    def _turn(self) -> None:
        """Keep the full file as the old one, and begin a new one."""
        self._file.close()
        self._files.rename(self._path, self._path + OLD)
        self._file = self._open()
