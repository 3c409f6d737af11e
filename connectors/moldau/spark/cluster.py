"""The cluster of the pipeline that runs this job, as options of `format("moldau")`."""

from __future__ import annotations

from moldau.cli.commands.cluster_connection import BOOTSTRAP_VARIABLE, CONFIG_VARIABLE
from moldau.errors import ConfigError
from moldau.runtime.children import process_environment


def cluster_settings() -> dict[str, str]:
    """Return the settings of clients of the cluster: its addresses, TLS and login.

    They are in the file that the environment variable MOLDAU_COMMAND_CONFIG names, and in
    MOLDAU_BOOTSTRAP, as `moldau pipeline run` sets both. Raises ConfigError without them."""
    from moldau.client.base.file import read_settings

    environment = process_environment()
    path = environment.get(CONFIG_VARIABLE)
    found = read_settings(path)[0] if path else {}
    if bootstrap := environment.get(BOOTSTRAP_VARIABLE):
        found["bootstrap.servers"] = bootstrap
    if not found.get("bootstrap.servers"):
        raise ConfigError(
            f"no cluster: run this by `moldau pipeline run`, or set {BOOTSTRAP_VARIABLE}"
        )
    return found


def cluster_options() -> dict[str, str]:
    """Return `cluster_settings` as options of `format("moldau")`, with the prefix `kafka.`."""
    return {f"kafka.{name}": value for name, value in cluster_settings().items()}
