"""Where this process is: its directory and the name of its machine."""

from __future__ import annotations

import os
import socket


def absolute_path(path: str) -> str:
    """`path` as seen from the directory that the process was started in; `~` is the user's home."""
    return os.path.abspath(os.path.expanduser(path))


def host_name() -> str:
    """What this machine calls itself."""
    return socket.gethostname()
