"""Where this process is: its directory, its number and the name of its machine."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn


def absolute_path(path: str) -> str:
    """`path` as seen from the directory that the process was started in; `~` is the user's home."""
    return os.path.abspath(os.path.expanduser(path))


def host_name() -> str:
    """What this machine calls itself."""
    return socket.gethostname()


def make_private_directory(path: str) -> None:
    """Make it and what is above it, readable by its owner alone; one that exists stays as it is."""
    os.makedirs(path, mode=0o700, exist_ok=True)


def signal_process(pid: int) -> None:
    """Ask a process to end in order; nothing happens if it has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def become(words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Run a program in place of this one: its signals, output and exit code are this process's."""
    os.execve(words[0], list(words), dict(environment))  # noqa: S606 - that is what it is for


def process_id() -> int:
    """Of this process."""
    return os.getpid()


def is_alive(pid: int) -> bool:
    """Whether there is a process of that number, be it another one by now."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's
    return True
