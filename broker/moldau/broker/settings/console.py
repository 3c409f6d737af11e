"""The console inside a broker's process."""

from __future__ import annotations

from moldau.config import BOOLEAN, STRING, Setting

moldau_console_listener = Setting(
    "moldau.console.listener",
    STRING,
    None,
    "HOST:PORT where the broker's process serves the console of its cluster; also `--console`. "
    "Kafka has no such setting.",
)
moldau_console_admin = Setting(
    "moldau.console.admin",
    BOOLEAN,
    False,
    "Whether visitors of `moldau.console.listener` may change the cluster; if not, its pages are "
    "read-only. Kafka has no such setting.",
)
moldau_console_http_config = Setting(
    "moldau.console.http.config",
    STRING,
    None,
    "A file of settings that protect `moldau.console.listener`, as that of "
    "`moldau.metrics.http.config`. Kafka has no such setting.",
)
