"""The file `empty-disk`: a voter remembers that it started with an empty disk (see `empty_disk`).

Invariants: the mark is durable before the log and the quorum-state of the new disk are, so it is
there after any crash; it is removed only after all committed records are durable here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.raft.quorum_state import QUORUM_STATE
from moldau.broker.raft.snapshots import list_snapshots

if TYPE_CHECKING:
    from moldau.runtime.files import Files

EMPTY_DISK: Final = "empty-disk"
_LOG: Final = ".log"
_TEXT: Final = (
    "This controller started with an empty disk. It removes this file when it has read the\n"
    "metadata of the others; until then it votes only where that can lose nothing.\n"
)


def is_marked(files: Files, directory: str) -> bool:
    """Whether the voter started with an empty disk, and has not caught up since."""
    return files.exists(f"{directory}/{EMPTY_DISK}")


def holds_nothing(files: Files, directory: str) -> bool:
    """Whether the metadata log's directory has no log, no snapshot and no vote. The empty snapshot
    that formatting leaves there does not count."""
    return not (
        any(
            name == QUORUM_STATE or _is_log(files, directory, name)
            for name in files.list(directory)
        )
        or any(each.end_offset > 0 for each in list_snapshots(files, directory))
    )


def _is_log(files: Files, directory: str, name: str) -> bool:
    return name.endswith(_LOG) and files.stat(f"{directory}/{name}").size_bytes > 0


def write_mark(files: Files, directory: str) -> None:
    """Write the mark. Durable on return."""
    files.write_text_atomic(f"{directory}/{EMPTY_DISK}", _TEXT)


def remove_mark(files: Files, directory: str) -> None:
    """Remove the mark, if it exists. Durable on return."""
    if is_marked(files, directory):
        files.remove(f"{directory}/{EMPTY_DISK}")
        files.sync_dir(directory)
