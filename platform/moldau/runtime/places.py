"""The place of this process: its directory, its process id and the name of its machine."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn


def absolute_path(path: str) -> str:
    """Return `path` as seen from this process's start directory; `~` is the user's home."""
    return os.path.abspath(os.path.expanduser(path))


def resolved_path(path: str) -> str:
    """Return `path` as seen from this process's directory, with its links and `..` resolved."""
    return os.path.realpath(path)


def default_data_directory(environment: Mapping[str, str]) -> str:
    """Return the default data directory of a broker: in the user's directory for data, or
    `moldau-data` in the current directory."""
    data_home = environment.get("XDG_DATA_HOME", "")
    if data_home.startswith("/"):
        return f"{data_home}/moldau/broker"
    home = environment.get("HOME", "")
    return f"{home}/.local/share/moldau/broker" if home.startswith("/") else "moldau-data"


def host_name() -> str:
    """Return the host name of this machine."""
    return socket.gethostname()


def make_private_directory(path: str) -> None:
    """Make a directory and its parents, for the owner only; an existing one stays as it is."""
    os.makedirs(path, mode=0o700, exist_ok=True)


def write_private_text(path: str, text: str) -> None:
    """Write a new file that only its owner may read. Raise FileExistsError if it exists."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)


def signal_process(pid: int) -> None:
    """Send SIGTERM to a process; do nothing if it has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def become(words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Run a program in place of this one: its signals, output and exit code are this process's."""
    os.execve(words[0], list(words), dict(environment))  # noqa: S606 - that is what it is for


def process_id() -> int:
    """Return the process id of this process."""
    return os.getpid()


def is_alive(pid: int) -> bool:
    """Whether a process with that id exists; it may be a later one with the same id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's
    return True
