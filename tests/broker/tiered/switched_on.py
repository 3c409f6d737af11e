"""Tiered storage switched on, in this process: until remote segments are read, no user has it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from moldau.broker.settings.unbuilt import TIERED, UNBUILT

SETTINGS: Final = {
    "remote_log_storage_system_enable": "true",
    "remote_log_manager_task_interval_ms": "200",
    "log_retention_check_interval_ms": "200",
    "log_initial_task_delay_ms": "100",
}
"""Of a node that has much to do in a short time; `remote_storage` is missing."""
TOPIC: Final = {
    "remote_storage_enable": "true",
    "internal_segment_bytes": "2000",
    "local_retention_bytes": "1",
    "retention_bytes": "-1",
    "retention_ms": "-1",
    "file_delete_delay_ms": "0",
}
"""Of a topic whose segments are small and go to the store at once."""


def switch_on(replace: Callable[[Any, str, Any], None] = setattr) -> None:
    """Accept the settings. `replace` is `monkeypatch.setattr` in a test."""
    # The package has a function of the module's name.
    module = import_module("moldau.broker.settings.unbuilt")
    replace(module, "UNBUILT", tuple(each for each in UNBUILT if each not in TIERED))
