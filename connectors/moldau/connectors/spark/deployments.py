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
from moldau.connectors.spark.checkpoints import CheckpointFolder, Session
from moldau.spark.reach import check_reachable
from moldau.spark.session import new_session, remote_session, shared_server

_MEMORY: Final = "1g"
_USER: Final = "moldau"
_SERVERS: Final = ("shared-local", "remote")


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
    last = folder.last_session()
    if last.is_left:
        _end(_session_at(application, address, name, last.number))
    number = last.number + 1
    folder.note_session(Session(number, is_left=True))
    return new_session(application, remote=_named(address, name, number), conf=conf)


def close_session(session: Any, config: SparkConfig, folder: CheckpointFolder) -> None:
    """The opposite of `open_session`."""
    session.stop()
    if config.deploy in _SERVERS and folder.is_here:
        folder.note_session(Session(folder.last_session().number, is_left=False))


def end_left(config: SparkConfig, folder: CheckpointFolder) -> None:
    """Ends what a runner that was killed has left on a server. ConfigError if no server answers:
    the query may still work on its checkpoint."""
    last = folder.last_session()
    if config.deploy not in _SERVERS or not folder.is_here or not last.is_left:
        return
    address = config.remote if config.deploy == "remote" else _running_server()
    if address is not None:
        _end(_session_at(f"moldau-{folder.name}", address, folder.name, last.number))


def _running_server() -> str | None:
    """This user's Spark Connect server on this machine; None if none runs."""
    local = import_module("pyspark.sql.connect.local_server")
    with local.Discovery() as discovery:
        server = local.LocalConnectServer(discovery)
        return f"{server.url}/;token={server.token}" if server.is_reusable() else None


def _session_at(application: str, address: str, name: str, number: int) -> Any:
    """The session of the last runner; an empty one if the server has forgotten it, None if it was
    closed."""
    closed = import_module("pyspark.errors").PySparkException
    try:
        return remote_session(application, _named(address, name, number))
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
