"""`moldau cert`: an authority, and the certificates that it signs."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from moldau.broker.main.summaries import SUMMARIES
from moldau.cli.command import Context, Exit
from moldau.cli.numbers import whole
from moldau.errors import ConfigError
from moldau.errors.amounts import counted

if TYPE_CHECKING:
    from moldau.runtime import Runtime

AUTHORITY: Final = "authority"
"""The folder of the authority in a directory of `moldau init --secure`."""
_DAYS_MAX: Final = 3650


class CertCommand:
    """The `cert` command."""

    summary = SUMMARIES["cert"]

    def configure(self, parser: ArgumentParser, /) -> None:
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        authority = actions.add_parser("authority", help="a new authority: authority.key, ca.pem")
        authority.add_argument("folder", metavar="DIR", help="a directory without an authority")
        node = actions.add_parser("node", help="a key and certificate for a node")
        node.add_argument("hosts", nargs="+", metavar="HOST", help="names and addresses of it")
        client = actions.add_parser("client", help="a key and certificate for a client")
        client.add_argument("name", metavar="NAME", help="its principal is User:CN=NAME")
        for each in (node, client):
            each.add_argument(
                "--in", dest="folder", required=True, metavar="DIR", help="of the authority"
            )
            each.add_argument(
                "--out", required=True, metavar="FILE", help="the new PEM file, key first"
            )
            each.add_argument(
                "--days",
                type=whole(1, _DAYS_MAX),
                metavar="DAYS",
                help="how long it is valid (default: 730)",
            )
        for each in (authority, node, client):
            each.add_argument("--debug", action="store_true", default=SUPPRESS, help=SUPPRESS)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.link.certificates import ISSUED_DAYS, IssuedCertificate, check_library, issue
        from moldau.runtime.places import absolute_path, write_private_text
        from moldau.runtime.real import RealRuntime

        check_library()
        runtime = RealRuntime("cert")
        folder = absolute_path(arguments.folder)
        if arguments.action == "authority":
            return _make_authority(runtime, folder, context)
        if runtime.files.exists(f"{folder}/{AUTHORITY}/authority.key"):
            folder = f"{folder}/{AUTHORITY}"
        try:
            key = runtime.files.read_text(f"{folder}/authority.key")
            certificate = runtime.files.read_text(f"{folder}/ca.pem")
        except OSError as error:
            raise ConfigError(
                "it has no authority of moldau init --secure or moldau cert authority",
                directory=folder,
                why=error.strerror or str(error),
            ) from error
        is_node = arguments.action == "node"
        hosts = arguments.hosts if is_node else ()
        name = arguments.hosts[0] if is_node else arguments.name
        now_ms = runtime.clock.wall_ms()
        days = arguments.days or ISSUED_DAYS
        issued = issue(IssuedCertificate(key, certificate), name, hosts, now_ms, days)
        path = absolute_path(arguments.out)
        try:
            write_private_text(path, issued.key + issued.certificate)
        except OSError as error:
            why = error.strerror or str(error)
            raise ConfigError("the file cannot be written", path=path, why=why) from error
        context.out.write(f"{path}: valid for {counted(days, 'day')}, as User:CN={name}\n")
        return Exit.DONE


def _make_authority(runtime: Runtime, folder: str, context: Context) -> int:
    from moldau.link.certificates import make_authority
    from moldau.runtime.places import make_private_directory, write_private_text

    key, certificate = f"{folder}/authority.key", f"{folder}/ca.pem"
    for path in (key, certificate):
        if runtime.files.exists(path):
            raise ConfigError("there is an authority already: give another directory", path=path)
    made = make_authority("moldau authority", runtime.clock.wall_ms())
    try:
        make_private_directory(folder)
        write_private_text(key, made.key)
        write_private_text(certificate, made.certificate)
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError("the authority cannot be written", directory=folder, why=why) from error
    context.out.write(f"{certificate}: what nodes and clients trust; keep {key} private\n")
    return Exit.DONE


command = CertCommand()
