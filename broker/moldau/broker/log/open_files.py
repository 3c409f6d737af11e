"""Limits for logs and connections, from the number of files that the process may open. Pure.

A log that is written to holds three files (its last segment and the mappings of two indexes) and
two memory mappings. Any log may be written to at any time, so files are reserved for all of them.
Others are kept back for older segments, checkpoints, compaction, copies between directories, and
the last connections. The rest is for connections.

Why count at all: the operation that fails to open a file is usually not the one that opened too
many. Without limits, after a topic with many partitions or a flood of connections a checkpoint
cannot be written, and the broker mistakes the log directory for broken.
"""

from __future__ import annotations

import errno
from typing import Final

from moldau.runtime.files import OpenFiles

FILES_A_LOG: Final = 3
MAPPINGS_A_LOG: Final = 2
KEPT_BACK_MAX: Final = 1024
_MAPPINGS_OF_THE_PROCESS: Final = 4096
_SHORTAGES: Final = frozenset((errno.EMFILE, errno.ENFILE))
_NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT))

RAISE_THE_LIMIT: Final = "raise it (ulimit -n, LimitNOFILE= of systemd, --ulimit of containers)"


def kept_back(limit: int) -> int:
    """Return how many of `limit` files are used neither for new logs nor for connections."""
    return min(limit // 4, KEPT_BACK_MAX)


def logs_max(files: OpenFiles) -> int:
    """Return the maximum number of logs."""
    by_files = (files.limit - kept_back(files.limit)) // FILES_A_LOG
    if files.mappings_limit is None:
        return by_files
    return min(by_files, (files.mappings_limit - _MAPPINGS_OF_THE_PROCESS) // MAPPINGS_A_LOG)


def refusal_of_logs(files: OpenFiles, logs: int, more: int) -> str | None:
    """Return the reason why there cannot be `more` logs beside the current ones, or None."""
    most = logs_max(files)
    if logs + more > most:
        return (
            f"this broker has {logs} partitions and would have {logs + more}, and its process may "
            f"open {files.limit} files{_mappings(files)}, which is enough for {most}: "
            f"{RAISE_THE_LIMIT} and start it again, or delete topics"
        )
    free = files.limit - kept_back(files.limit) - files.opened
    if more * FILES_A_LOG > free:
        return (
            f"{more} more partitions need {more * FILES_A_LOG} files, and of the {files.limit} "
            f"that this broker's process may open {files.opened} are open: {RAISE_THE_LIMIT} and "
            "start it again, or let clients close connections"
        )
    return None


def _mappings(files: OpenFiles) -> str:
    if files.mappings_limit is None:
        return ""
    return f" and map {files.mappings_limit} of them (vm.max_map_count)"


def connections_max(limit: int, logs: int) -> int:
    """Return the maximum number of connections beside `logs` logs: the files that remain for them,
    but at least half of the files that are kept back."""
    return max(kept_back(limit) // 2, limit - kept_back(limit) - logs * FILES_A_LOG)


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
