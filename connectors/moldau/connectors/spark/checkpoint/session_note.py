"""A note of the last session on a Spark Connect server, in the file `session` beside a checkpoint.

A query on a server continues without its client. The note tells the next process which session it
has to end first.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.connectors.spark.checkpoint.address import CheckpointAddress

_SESSION: Final = "session"
_CLOSED: Final = "closed"
_SERVER: Final = "server="


class Session(NamedTuple):
    """A session on a Spark Connect server. `is_open`: nothing says that it was closed. `server` is
    the server's host and port, or `shared-local`; empty if the note does not name it."""

    number: int
    is_open: bool
    server: str = ""


class SessionNote:
    """The file with the last session, for a checkpoint on this machine."""

    def __init__(self, address: CheckpointAddress) -> None:
        self.path = address.path / _SESSION

    def read(self) -> Session:
        """Return the last session. Its number is 0 before the first one."""
        try:
            text = self.path.read_text(encoding="ascii")
        except FileNotFoundError:
            return Session(0, is_open=False)
        number, *words = text.split()
        servers = [word.removeprefix(_SERVER) for word in words if word.startswith(_SERVER)]
        return Session(int(number), is_open=_CLOSED not in words, server="".join(servers))

    def write(self, session: Session) -> None:
        """Note that this session begins or has ended. The caller holds the checkpoint's lock."""
        words = [str(session.number)]
        words += [] if session.is_open else [_CLOSED]
        words += [f"{_SERVER}{session.server}"] if session.server else []
        draft = self.path.with_name(f"{_SESSION}.new")
        draft.write_text(" ".join(words), encoding="ascii")
        draft.replace(self.path)
