"""Open the Spark session of a runner by `spark.deploy`, and end what a killed runner left open.

A local session ends with its runner. On a Spark Connect server a query continues without its
client. So a runner notes its session beside the checkpoint before the session begins, and the next
runner ends a noted session before it starts the query again from the checkpoint.
"""

from __future__ import annotations

from hashlib import sha256
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit

from moldau.connectors.spark.base_config import SparkConfig
from moldau.connectors.spark.checkpoint.folder import CheckpointFolder, Session
from moldau.errors import ConfigError
from moldau.spark.reach import Unavailable, check_reachable
from moldau.spark.session import (
    need_connect,
    new_session,
    prepare_environment,
    remote_session,
    shared_server,
)

_HANDSHAKE_S: Final = 60.0
_DRIVER_MEMORY: Final = "1g"
_USER: Final = "moldau"
_SHARED: Final = "shared-local"
_ON_SERVER: Final = (_SHARED, "remote")


def open_session(config: SparkConfig, folder: CheckpointFolder) -> Any:
    """Open a session for one query alone. ConfigError with one line if something is missing.

    The caller holds the lock of the checkpoint.
    """
    _end_last_session(config, folder)
    name = folder.address.name
    application = f"moldau-{name}"
    conf = {"spark.driver.memory": _DRIVER_MEMORY, **config.spark_conf}
    if config.deploy == "local":
        return new_session(application, master=config.master, conf=conf)
    if config.deploy == "submit":
        check_reachable(config.master)
        return new_session(application, master=None, conf=config.spark_conf)
    if config.deploy == _SHARED:
        master = config.master if config.master.startswith("local") else "local[*]"
        server = shared_server(master, conf)
    else:
        assert config.remote is not None
        server = config.remote
    check_handshake(server)
    if not folder.address.is_local:
        return new_session(application, remote=server, conf=conf)
    last = folder.session_note.read()
    if last.is_open:
        _stop_session(attach_session(application, server, name, last.number))
    number = last.number + 1
    folder.session_note.write(Session(number, is_open=True, server=_server_name(config)))
    return new_session(application, remote=_session_address(server, name, number), conf=conf)


def check_handshake(server: str, timeout_s: float = _HANDSHAKE_S) -> None:
    """Raise ConfigError unless a Spark Connect server shakes hands in time.

    PySpark itself would wait for ten minutes if something else listens at the address.
    """
    need_connect()
    check_reachable(server)
    prepare_environment(needs_java=False)
    grpc = import_module("grpc")
    channel = (
        import_module("pyspark.sql.connect.client.core").DefaultChannelBuilder(server).toChannel()
    )
    try:
        grpc.channel_ready_future(channel).result(timeout=timeout_s)
    except grpc.FutureTimeoutError:
        raise Unavailable(
            "the server accepts connections but does not answer as a Spark Connect server: correct "
            "the address, or restart the server",
            remote=server.partition("/;")[0],
            waited_s=timeout_s,
        ) from None
    finally:
        channel.close()


def close_session(session: Any, config: SparkConfig, folder: CheckpointFolder) -> None:
    """Stop a session of `open_session`, then note that it is closed."""
    session.stop()
    if config.deploy in _ON_SERVER and folder.address.is_local:
        folder.session_note.write(folder.session_note.read()._replace(is_open=False))


def _server_name(config: SparkConfig) -> str:
    """Return the name of the server for the note of the session; empty without a server."""
    if config.deploy == "remote" and config.remote is not None:
        return urlsplit(config.remote).netloc
    return config.deploy if config.deploy in _ON_SERVER else ""


def _end_last_session(config: SparkConfig, folder: CheckpointFolder) -> None:
    """End the session that a killed runner left open elsewhere, before this config was changed.

    Its query continues there, and two queries on one checkpoint would write rows twice. ConfigError
    if it may be open on a server that this machine cannot find.
    """
    if not folder.address.is_local:
        return
    last, name = folder.session_note.read(), folder.address.name
    server = _server_name(config)
    if not last.is_open or (server and last.server in (server, "")):
        return
    if last.server != _SHARED:
        raise ConfigError(
            "the last runner was killed, and its query may continue on its Spark Connect server: "
            "set spark.deploy and spark.remote back and start the connector there once, which ends "
            "that query; or, if that server has ended, remove the file named here",
            server=last.server or "unknown",
            path=str(folder.session_note.path),
        )
    running = _running_server()
    if running is not None:
        _stop_session(attach_session(f"moldau-{name}", running, name, last.number))
    folder.session_note.write(last._replace(is_open=False))


def end_open_session(config: SparkConfig, folder: CheckpointFolder) -> None:
    """End the session that a killed runner left open on a server, with its queries.

    ConfigError if no server answers: the query may still work on its checkpoint.
    """
    _end_last_session(config, folder)
    last = folder.session_note.read()
    if config.deploy not in _ON_SERVER or not folder.address.is_local or not last.is_open:
        return
    server = config.remote if config.deploy == "remote" else _running_server()
    if server is not None:
        name = folder.address.name
        _stop_session(attach_session(f"moldau-{name}", server, name, last.number))


def _running_server() -> str | None:
    """Return the address of this user's Spark Connect server on this machine; None if none runs."""
    local = import_module("pyspark.sql.connect.local_server")
    with local.Discovery() as discovery:
        server = local.LocalConnectServer(discovery)
        return f"{server.url}/;token={server.token}" if server.is_reusable() else None


def attach_session(application: str, server: str, name: str, number: int) -> Any:
    """Attach to the session with this number of the query `name`.

    Return None if the session was closed, and a new empty session if the server has forgotten it.
    """
    check_handshake(server)
    closed = import_module("pyspark.errors").PySparkException
    try:
        return remote_session(application, _session_address(server, name, number))
    except closed:
        return None


def _stop_session(session: Any) -> None:
    """Stop the queries of a session, then the session. Do nothing for None."""
    if session is None:
        return
    for query in session.streams.active:
        query.stop()
    session.stop()


def _session_address(server: str, name: str, number: int) -> str:
    """Return the address of the server with the id of this session, which has to be a UUID."""
    digits = sha256(f"{server} {name} {number}".encode()).hexdigest()
    session = "-".join((digits[:8], digits[8:12], f"5{digits[13:16]}", f"a{digits[17:20]}",
                        digits[20:32]))  # fmt: skip
    separator = ";" if "/;" in server else "/;"
    user = "" if "user_id=" in server else f";user_id={_USER}"
    return f"{server.rstrip('/')}{separator}session_id={session}{user}"
