"""Directories of tasks that went to other workers: deleted after they were unused for long.

A task that comes back within `state.cleanup.delay.ms` finds its stores; after that it would have to
read most of its changelogs anyway.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Set
from typing import Final

from moldau.runtime.files import Files

_TASK: Final = re.compile(r"\d+_\d+")


class StaleTasks:
    """The unused task directories of one worker. `delay_s` is how long one is kept."""

    def __init__(self, tasks_path: str, files: Files, delay_s: float) -> None:
        self._path = tasks_path
        self._files = files
        self._delay_s = delay_s
        self._since: dict[str, float] = {}
        self._look_at_s = 0.0

    def is_due(self, now_s: float) -> bool:
        """Whether to look for unused directories now: true a few times in each delay."""
        if now_s < self._look_at_s:
            return False
        self._look_at_s = now_s + max(0.1, min(60.0, self._delay_s / 4))
        return True

    def clean(self, used: Set[str], now_s: float, deleted: Callable[[str], None]) -> None:
        """Delete directories that were unused for the delay; call `deleted` for each."""
        if not self._files.exists(self._path):
            return
        found = {name for name in self._files.list(self._path) if _TASK.fullmatch(name)}
        unused = found - used
        self._since = {name: self._since.get(name, now_s) for name in sorted(unused)}
        for name, since in list(self._since.items()):
            if now_s - since >= self._delay_s:
                self._files.remove_tree(posixpath.join(self._path, name))
                del self._since[name]
                deleted(name)
