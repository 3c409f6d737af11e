"""The session of a runner by `spark.deploy`, and what a runner that was killed left on a server.

A local session ends with its runner. On a Spark Connect server a query goes on without its client:
so the session's name is written into the checkpoint's folder before the session begins, and the
next runner ends what the last one left before it starts the query anew from its checkpoint.
"""

from __future__ import annotations

from hashlib import sha256
from importlib import import_module
from typing import Any, Final

from moldau.connectors.spark.base_config import SparkConfig
from moldau.connectors.spark.checkpoints import CheckpointFolder
from moldau.spark.reach import check_reachable
from moldau.spark.session import new_session, shared_server

_MEMORY: Final = "1g"
_USER: Final = "moldau"


def open_session(config: SparkConfig, folder: CheckpointFolder) -> Any:
    """A session for this query alone; ConfigError in one line for what is missing."""
    name = folder.name
    application = f"moldau-{name}"
    conf = {"spark.driver.memory": _MEMORY, **config.spark_conf}
    if config.deploy == "local":
        return new_session(application, master=config.master, conf=conf)
    if config.deploy == "submit":
        check_reachable(config.master)
        return new_session(application, master=None, conf=config.spark_conf)
    if config.deploy == "shared-local":
        master = config.master if config.master.startswith("local") else "local[*]"
        address = shared_server(master, conf)
    else:
        assert config.remote is not None
        address = config.remote
    if not folder.is_here:
        return new_session(application, remote=address, conf=conf)
    number = folder.last_session()
    if number:
        _end(_session_at(application, address, name, number))
    number += 1
    folder.note_session(number)
    return new_session(application, remote=_named(address, name, number), conf=conf)


def _session_at(application: str, address: str, name: str, number: int) -> Any:
    """The session of the last runner; an empty one if the server has forgotten it, None if it was
    closed."""
    closed = import_module("pyspark.errors").PySparkException
    try:
        return new_session(application, remote=_named(address, name, number))
    except closed:
        return None


def _end(session: Any) -> None:
    if session is None:
        return
    for query in session.streams.active:
        query.stop()
    session.stop()


def _named(address: str, name: str, number: int) -> str:
    """The address with the session's own id, which has to be a UUID."""
    digits = sha256(f"{address} {name} {number}".encode()).hexdigest()
    session = "-".join((digits[:8], digits[8:12], f"5{digits[13:16]}", f"a{digits[17:20]}",
                        digits[20:32]))  # fmt: skip
    separator = ";" if "/;" in address else "/;"
    user = "" if "user_id=" in address else f";user_id={_USER}"
    return f"{address.rstrip('/')}{separator}session_id={session}{user}"
