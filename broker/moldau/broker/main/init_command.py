"""`moldau init --secure`: a secured node from nothing, in one directory.

It makes an authority, the node's certificate, the settings of the node and of its clients, and a
formatted data directory with the admin's SCRAM credential in its first record. So nothing is open
at any moment, and no user must be made before the first one can log in.

Invariants: the directory is new, and only this user may read it. No password is printed, or is in
the arguments of a process. The key of the authority is in a folder of its own, because the node
does not need it, and with it anyone can make certificates that the cluster trusts.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from base64 import b32encode
from typing import TYPE_CHECKING, Final

from moldau.broker.main.broker_command import SHARDS_MAX
from moldau.broker.main.cert_command import AUTHORITY
from moldau.broker.main.summaries import SUMMARIES
from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.numbers import whole

if TYPE_CHECKING:
    from moldau.runtime import Runtime

_LOCAL: Final = "localhost"
_PORT: Final = 9092
_PORT_MAX: Final = 65_535
_PASSWORD_BYTES: Final = 20
_KEY_BYTES: Final = 40
_MECHANISM: Final = "SCRAM-SHA-512"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class InitCommand:
    """The `init` command."""

    summary = SUMMARIES["init"]

    def configure(self, parser: ArgumentParser, /) -> None:
        parser.add_argument("directory", metavar="DIR", help="a new directory")
        parser.add_argument(
            "--secure", action="store_true", help="with TLS, logins and access rules (required)"
        )
        parser.add_argument(
            "--host",
            default=_LOCAL,
            metavar="HOST",
            help="the name that clients connect to (default: localhost)",
        )
        parser.add_argument(
            "--port",
            type=whole(1, _PORT_MAX - 1),
            default=_PORT,
            metavar="PORT",
            help=f"where clients connect; controllers at the next one (default: {_PORT})",
        )
        parser.add_argument(
            "--shards",
            type=whole(1, SHARDS_MAX),
            default=1,
            metavar="N",
            help="brokers on this host, with ports in a row; controllers behind them (default: 1)",
        )
        parser.add_argument(
            "--admin", default="admin", metavar="NAME", help="the first user (default: admin)"
        )

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.link.certificates import check_library
        from moldau.runtime.places import absolute_path
        from moldau.runtime.real import RealRuntime

        if not arguments.secure:
            raise UsageError(
                "give --secure; a node without security needs no preparation: moldau broker start"
            )
        if not arguments.admin.isascii() or not arguments.admin.isalnum():
            raise UsageError("--admin: a name of ASCII letters and digits")
        if arguments.port + arguments.shards > _PORT_MAX:
            raise UsageError(f"--port {arguments.port}: the ports of all shards end above it")
        check_library()
        runtime = RealRuntime("init")
        folder = absolute_path(arguments.directory)
        if runtime.files.exists(folder) and runtime.files.list(folder):
            raise UsageError(f"{folder} is not empty: give a new directory")
        _make(runtime, folder, arguments)
        context.out.write(_described(folder, arguments))
        return Exit.DONE


def _make(runtime: Runtime, folder: str, arguments: Namespace) -> None:
    from moldau.broker.main.shard_count import FOLDER
    from moldau.link.certificates import issue, make_authority
    from moldau.runtime.places import make_private_directory, write_private_text

    host, now_ms = arguments.host, runtime.clock.wall_ms()
    password = b32encode(runtime.random.randbytes(_PASSWORD_BYTES)).decode().lower()
    authority = make_authority("moldau authority", now_ms)
    hosts = tuple(dict.fromkeys((host, "localhost", "127.0.0.1", "::1")))
    node = issue(authority, "node-1", hosts, now_ms)
    make_private_directory(folder)
    apart = f"{folder}/{AUTHORITY}"
    make_private_directory(apart)
    write_private_text(f"{apart}/authority.key", authority.key)
    for each in (apart, folder):
        write_private_text(f"{each}/ca.pem", authority.certificate)
    write_private_text(f"{folder}/node.pem", node.key + node.certificate)
    ports = range(arguments.port, arguments.port + arguments.shards)
    settings = server_text(folder, host, ports, arguments.admin, password)
    settings += token_text(b32encode(runtime.random.randbytes(_KEY_BYTES)).decode().lower())
    write_private_text(f"{folder}/server.properties", settings)
    address = f"{host}:{arguments.port}"
    client = client_text(folder, address, arguments.admin, password)
    write_private_text(f"{folder}/admin.properties", client)
    write_private_text(f"{folder}/kcat.conf", kcat_text(folder, address, arguments.admin, password))
    first = f"{folder}/data/{FOLDER}0" if arguments.shards > 1 else f"{folder}/data"
    _format(runtime, f"{folder}/server.properties", first, arguments.admin, password)


def _format(runtime: Runtime, path: str, directory: str, user: str, password: str) -> None:
    """Format the data directory of the node or of its first shard, with the credential of the admin
    in its first record."""
    from moldau.broker.controller.bootstrap import bootstrap_records
    from moldau.broker.controller.storage import format_storage
    from moldau.broker.main.storage_scram import credential_of
    from moldau.broker.server.storage import plan_of
    from moldau.broker.settings import broker_settings
    from moldau.broker.settings.log import log_dirs
    from moldau.config import load_file, overrides
    from moldau.ids import format_uuid, new_uuid
    from moldau.runtime.places import host_name

    own = overrides({log_dirs.name: directory})
    settings = broker_settings(load_file(runtime.files, path), own)
    given = f"{_MECHANISM}=[name={user},password={password}]"
    records = bootstrap_records(credentials=[credential_of(given, runtime.random.randbytes)])
    plan = plan_of(
        settings,
        format_uuid(new_uuid(runtime.random)),
        records,
        is_standalone=True,
        host_name=host_name(),
    )
    format_storage(runtime.files, plan, runtime.random, runtime.clock.wall_ms())


def _jaas(user: str, password: str) -> str:
    from moldau.link.login.jaas import LoginModule, write_jaas

    return write_jaas(LoginModule("SCRAM", {"username": user, "password": password}))


def server_text(folder: str, host: str, ports: range, user: str, password: str) -> str:
    """Return the settings of the node, whose shards have these ports. It listens to the network if
    clients name its host."""
    bound = host if host == _LOCAL else ""
    port, controller_port = ports.start, ports.stop
    return f"""\
# Made by moldau init --secure. It holds the password of {user} and the key of tokens: keep it
# private.
process.roles=broker,controller
node.id=1
listeners=SASL_SSL://{bound}:{port},CONTROLLER://localhost:{controller_port}
advertised.listeners=SASL_SSL://{host}:{port}
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:SSL
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=localhost:{controller_port}
security.inter.broker.protocol=SASL_SSL
log.dirs={folder}/data

# TLS: certificates from {folder}/ca.pem; controllers must show one.
ssl.keystore.type=PEM
ssl.keystore.location={folder}/node.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.controller.ssl.client.auth=required

# Logins: users are in the cluster; this node logs in at others as {user}.
sasl.enabled.mechanisms=SCRAM-SHA-256,{_MECHANISM}
sasl.mechanism.inter.broker.protocol={_MECHANISM}
listener.name.sasl_ssl.{_MECHANISM.lower()}.sasl.jaas.config={_jaas(user, password)}

# Access: only {user} may do anything until there are rules.
authorizer.class.name={_AUTHORIZER}
super.users=User:{user};User:CN=node-1

# One node.
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


def token_text(key: str) -> str:
    """Return the setting that lets users make delegation tokens."""
    return f"""
# Delegation tokens are signed with this key: all nodes of a cluster have the same.
delegation.token.secret.key={key}
"""


def client_text(folder: str, address: str, user: str, password: str) -> str:
    """Return the settings of a client, for moldau, Python and Java."""
    return f"""\
bootstrap.servers={address}
security.protocol=SASL_SSL
sasl.mechanism={_MECHANISM}
sasl.jaas.config={_jaas(user, password)}
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
"""


def kcat_text(folder: str, address: str, user: str, password: str) -> str:
    """Return the settings of a client of librdkafka."""
    return f"""\
bootstrap.servers={address}
security.protocol=SASL_SSL
sasl.mechanism={_MECHANISM}
sasl.username={user}
sasl.password={password}
ssl.ca.location={folder}/ca.pem
"""


def _described(folder: str, arguments: Namespace) -> str:
    user, address = arguments.admin, f"{arguments.host}:{arguments.port}"
    shards = f" --shards {arguments.shards}" if arguments.shards > 1 else ""
    return f"""\
{folder} is a secured node: TLS, the user {user} (SCRAM), and access rules
  start    moldau broker start --config {folder}/server.properties{shards}
  moldau   moldau topic list --command-config {folder}/admin.properties
  Java     kafka-topics.sh --bootstrap-server {address} \\
               --command-config {folder}/admin.properties --list
  kcat     kcat -F {folder}/kcat.conf -L
  Python   Producer(load_settings("{folder}/admin.properties"))
Its files are private: they hold the password of {user}.
{folder}/{AUTHORITY} has the key of the authority, which the node does not need. Keep it elsewhere:
moldau cert node and moldau cert client find it with --in.
"""


command = InitCommand()
