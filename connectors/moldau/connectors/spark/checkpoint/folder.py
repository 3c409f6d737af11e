"""The folder of a connector's checkpoints, with everything that the connector keeps in it.

    <checkpoint.location>/<connector>/generation.json     which generation is in use (`generations`)
    <checkpoint.location>/<connector>/gen-2/              the checkpoint that Spark writes
    <checkpoint.location>/<connector>/lock                the lock (`lock`)
    <checkpoint.location>/<connector>/session             the last session (`session_note`)
    <checkpoint.location>/<connector>/spool/              rows of the batch at hand (`spool`)
    <checkpoint.location>/<connector>/topics/<topic>/     the same for the query of one topic
    <checkpoint.location>/.<connector>.removed/           a folder that is being removed

Invariant: a connector's folder has either one query or one query for each topic, never both. A
query of the other kind would read again what is written already.

A query on a Spark Connect server continues without its client. The note of the last session tells
the next process which session it has to end first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from moldau.connectors.file.storage import storage_of
from moldau.connectors.spark.checkpoint.address import TOPICS, CheckpointAddress
from moldau.connectors.spark.checkpoint.generations import Generation, Generations
from moldau.connectors.spark.checkpoint.lock import CheckpointLock
from moldau.errors import ConfigError
from moldau.runtime.real_files import RealFiles

_OWN_NAMES: Final = re.compile(
    r"gen-\d+(\.new)?|topics|spool|lock|(generation\.json|session)(\.new|\.tmp)?"
)
"""All names of files and folders that a connector makes in its folder."""

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
        RealFiles().write_text_atomic(str(self.path), " ".join(words))


class CheckpointFolder:
    """The folder of a connector, or of one of its topics: on this machine, or at a URI that Spark
    knows."""

    def __init__(self, location: str, connector: str, topic: str | None = None) -> None:
        self.address = CheckpointAddress(location, connector, topic)
        self.generations = Generations(self.address)
        self.lock = CheckpointLock(self.address)
        self.session_note = SessionNote(self.address)

    def acquire_for_query(self) -> None:
        """Acquire the lock for a query.

        ConfigError if another process holds it, or as `check_task_per_topic` raises it.
        """
        self.check_task_per_topic()
        self.lock.acquire()

    def begin_generation(self, starting: Mapping[str, Mapping[str, int]]) -> Generation:
        """Begin a new generation at these offsets, as `Generations.begin`.

        ConfigError also as `check_task_per_topic` raises it.
        """
        self.check_task_per_topic()
        return self.generations.begin(starting)

    def check_task_per_topic(self) -> None:
        """Raise ConfigError if the connector's folder was begun with the other value of
        `spark.task.per.topic`. Do nothing at a URI, which only Spark can read."""
        if not self.address.is_local:
            return
        connector_path = self.address.connector_path
        has_topic = self.address.topic is not None
        others = connector_path.glob("gen-*") if has_topic else connector_path.glob(TOPICS)
        if any(others):
            raise ConfigError(
                "the checkpoint was begun with spark.task.per.topic="
                f"{str(not has_topic).lower()}: set it back, or choose another name for the "
                "connector",
                path=str(connector_path),
            )

    def topics(self) -> list[str]:
        """Return the topics of the connector that have a folder."""
        if self.address.is_local:
            return sorted(each.name for each in self.address.connector_path.glob(f"{TOPICS}/*"))
        start = f"{self.address.uri}/{TOPICS}/"
        files = storage_of(start).below(self.address.uri)
        below = [each for each in files if each.startswith(start)]
        return sorted({each.removeprefix(start).partition("/")[0] for each in below})

    def foreign_names(self) -> list[str]:
        """Return the names in the folder that belong to something else than its checkpoints.

        A sink or a source may have its files there, and `shop/b` is a connector's name too.
        """
        if self.address.is_local:
            names = {each.name for each in self.address.path.iterdir()}
        else:
            files = storage_of(self.address.uri).below(self.address.uri)
            start = f"{self.address.uri}/"
            names = {each.removeprefix(start).partition("/")[0] for each in files}
        return sorted(each for each in names if not _OWN_NAMES.fullmatch(each))

    def remove(self) -> None:
        """Remove everything that the connector has at `checkpoint.location`.

        The caller holds the lock of each of its queries. On this machine a removal that is cut
        short leaves nothing that a later query would read.
        """
        if not self.address.is_local:
            storage = storage_of(self.address.uri)
            for each in storage.below(self.address.uri):
                storage.remove(each)
            return
        connector_path = self.address.connector_path
        removed = connector_path.with_name(f".{connector_path.name}.removed")
        files = RealFiles()
        files.remove_tree(str(removed))
        files.rename(str(connector_path), str(removed))
        files.remove_tree(str(removed))

    @property
    def exists(self) -> bool:
        """Whether the connector has anything at `checkpoint.location`."""
        if self.address.is_local:
            return self.address.connector_path.is_dir()
        return bool(storage_of(self.address.uri).below(self.address.uri))
