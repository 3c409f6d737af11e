"""How many logs and connections a process has files for. Pure; counted before they are used up.

A log that is written holds three files (its last segment and the mappings of two indexes) and two
mappings of memory. Each may be written any time, so each log has a claim on all of them. Besides,
some are kept back: older segments, checkpoints, compaction, copies between directories, and the
last connections. What is left is for connections.

Why this is counted at all: the file that cannot be opened is somewhere else than who opened too
many. Without it a topic with many partitions, or a flood of connections, ends in a checkpoint that
cannot be written, and a log directory that is taken for broken.
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
    """Of so many files, those that are neither for new logs nor for connections."""
    return min(limit // 4, KEPT_BACK_MAX)


def logs_max(files: OpenFiles) -> int:
    """How many logs there may be."""
    by_files = (files.limit - kept_back(files.limit)) // FILES_A_LOG
    if files.mappings_limit is None:
        return by_files
    return min(by_files, (files.mappings_limit - _MAPPINGS_OF_THE_PROCESS) // MAPPINGS_A_LOG)


def refusal_of_logs(files: OpenFiles, logs: int, more: int) -> str | None:
    """Why there cannot be so many more logs than there are; None if there can."""
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
    """How many connections there may be beside so many logs: all that logs have no claim on, and
    however many those are, half of what is kept back."""
    return max(kept_back(limit) // 2, limit - kept_back(limit) - logs * FILES_A_LOG)


def is_shortage(error: BaseException) -> bool:
    """Whether it is the process, or the whole machine, that has too many files open: this says
    nothing of the disk, and may be over in a moment."""
    return isinstance(error, OSError) and error.errno in _SHORTAGES


def may_pass(error: OSError) -> bool:
    """Whether what could not be written beside what is there may be written a little later: too
    many files were open, or the disk was full."""
    return error.errno in _SHORTAGES or error.errno in _NO_ROOM


def advice(error: BaseException) -> str:
    """What a person can do about a log directory that this took out of service."""
    if is_shortage(error):
        return f"the process has reached its limit of open files; {RAISE_THE_LIMIT}"
    return "look after its disk (errors, room, rights)"
