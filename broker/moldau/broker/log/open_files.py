"""Shares of logs and connections in the files that the process may open. Pure.

A log that is written to or read has its file open, and mappings of two indexes once they are large.
The files that were not used lately are closed when the share of the logs is taken
(`file_pool.FilePool`), so the number of logs has no limit. A share is kept back for older segments,
checkpoints, compaction, copies between directories, and the last connections.

Why shares at all: the operation that fails to open a file is usually not the one that opened too
many. Without them, after a flood of connections a checkpoint cannot be written, and the broker
mistakes the log directory for broken.
"""

from __future__ import annotations

import errno
from typing import Final

from moldau.runtime.files import OpenFiles

KEPT_BACK_MAX: Final = 1024
LOG_FILES_MAX: Final = 32_768
_CONTROLLER_SHARE: Final = 8
"""Controllers and brokers have few connections to a controller: an eighth is enough for them, and
clients cannot take it away."""
_TO_MAKE_A_LOG: Final = 8
"""The files that are open for a moment while a log is made."""
_SHORTAGES: Final = frozenset((errno.EMFILE, errno.ENFILE))
_NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT))

RAISE_THE_LIMIT: Final = (
    "raise it (ulimit -n, LimitNOFILE= of systemd, --ulimit of containers; moldau doctor says more)"
)


def kept_back(limit: int) -> int:
    """Return how many of `limit` files are used neither for logs nor for connections."""
    return min(limit // 4, KEPT_BACK_MAX)


def log_files_max(limit: int) -> int:
    """Return how many of `limit` files the logs keep open at once, mappings included: two thirds of
    what is not kept back, up to a half of the mappings that systems allow by default."""
    return min((limit - kept_back(limit)) * 2 // 3, LOG_FILES_MAX)


def refusal_of_logs(files: OpenFiles) -> str | None:
    """Return the reason why no log can be made now, or None."""
    if files.opened + _TO_MAKE_A_LOG <= files.limit:
        return None
    return (
        f"{files.opened} of the {files.limit} files that this broker's process may open are open: "
        f"{RAISE_THE_LIMIT} and start it again, or let clients close connections"
    )


def connections_max(limit: int) -> int:
    """Return the maximum number of connections beside the files of the logs."""
    return limit - kept_back(limit) - log_files_max(limit)


def controller_connections_max(limit: int) -> int:
    """Return how many of `connections_max` are for the listeners of a controller, if the node is a
    broker too."""
    return connections_max(limit) // _CONTROLLER_SHARE


def is_shortage(error: BaseException) -> bool:
    """Whether the process, or the whole machine, has too many files open. This says nothing about
    the disk, and may pass in a moment."""
    return isinstance(error, OSError) and error.errno in _SHORTAGES


def may_pass(error: OSError) -> bool:
    """Whether a failed write of a new file may succeed a little later: too many files were open, or
    the disk was full."""
    return error.errno in _SHORTAGES or error.errno in _NO_ROOM


def advice(error: BaseException) -> str:
    """Return what an operator can do about a log directory that this error took out of service."""
    if is_shortage(error):
        return f"the process has reached its limit of open files; {RAISE_THE_LIMIT}"
    return "look after its disk (errors, room, rights)"
