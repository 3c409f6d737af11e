"""Members of one group, each a client of somebody's in a process of its own.

    with Members(Wish(bootstrap, topic, group, "range"), folder) as members:
        first = members.start("java")
        members.start("kcat")
        first.leave()                       # or first.kill()

A member tells which partitions it owns, and of each record when it has worked on it, before its
client may commit it (not so kcat, which is not to be killed).

Invariants: a member is ended by its own process, clean or not; one that ends by itself fails the
test with its last words.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from tests.conformance.clients import ROOT
from tests.conformance.member_kinds import KINDS, Fact, Kind, Owned, Read, Wish

_END_TIMEOUT_S: Final = 30.0


class Member:
    """One that runs, or has run. `owned` is None where it does not tell."""

    def __init__(self, name: str, kind: Kind, command: Sequence[str]) -> None:
        self.name = name
        self.facts: list[Fact] = []
        self.owned: frozenset[int] | None = frozenset() if kind.tells_owned else None
        self.kind = kind
        self._is_over = False
        self._last_words: deque[str] = deque(maxlen=60)
        self._process = subprocess.Popen(  # noqa: S603 - a client's program
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=ROOT,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        streams = (self._process.stdout, self._process.stderr)
        self._listeners = [threading.Thread(target=self._listen, args=(each,)) for each in streams]
        for each in self._listeners:
            each.start()

    def __repr__(self) -> str:
        state = "over" if self._is_over else f"owns {sorted(self.owned or ())}"
        return f"<{self.name}: {state}, read {len(self.seen)}>"

    @property
    def is_running(self) -> bool:
        return not self._is_over

    @property
    def seen(self) -> list[Read]:
        """What it has worked on, in its order."""
        return [each for each in list(self.facts) if isinstance(each, Read)]

    @property
    def last_words(self) -> str:
        return " | ".join(list(self._last_words))

    def check(self) -> None:
        """AssertionError if it has ended though nobody told it to."""
        if not self._is_over:
            code = self._process.poll()
            assert code is None, f"{self.name} ended by itself with {code}: {self.last_words}"

    def leave(self) -> None:
        """It commits what it has told, leaves its group and ends, without complaint."""
        self.check()
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self.kind.leaves_by_signal:
            self._process.send_signal(signal.SIGTERM)
        self._end()
        code = self._process.returncode
        by_signal = self.kind.leaves_by_signal and code in (-signal.SIGTERM, 128 + signal.SIGTERM)
        assert code == 0 or by_signal, f"{self.name} ended with {code}: {self.last_words}"

    def kill(self) -> None:
        """kill -9: the group hears nothing of it."""
        self._process.kill()
        self._end()

    def _end(self) -> None:
        self._is_over = True
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"{self.name} did not end: {self.last_words}") from None
        finally:
            for each in self._listeners:
                each.join()
            assert self._process.stdin is not None
            self._process.stdin.close()

    def _listen(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                facts = list(self.kind.reads(line, self.owned or frozenset()))
                if not facts:
                    self._last_words.append(line.strip())
                for each in facts:
                    if isinstance(each, Owned):
                        self.owned = each.partitions
                self.facts += facts


class Members:
    """All that a test has started; those that still run are ended with it."""

    def __init__(self, wish: Wish, folder: Path) -> None:
        self.wish = wish
        self.folder = folder
        self.all: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self.running:
            each.kill()

    @property
    def running(self) -> list[Member]:
        return [each for each in self.all if each.is_running]

    def start(self, client: str, strategy: str = "", *, is_static: bool = False) -> Member:
        """One more, with another strategy where one is given. A static one comes again as the same
        member of the group. Skips the test where this machine does not have that client."""
        kind = KINDS[client]
        name = f"{client}.static" if is_static else f"{client}.{len(self.all)}"
        strategy = strategy or self.wish.strategy
        instance = name if is_static else ""
        wish = replace(self.wish, name=name, strategy=strategy, instance=instance)
        member = Member(wish.name, kind, kind.command(wish, self.folder))
        self.all.append(member)
        return member

    def check(self) -> None:
        for each in self.running:
            each.check()
