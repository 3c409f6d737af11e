"""`moldau security check`: what is open in the settings of a node."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.main.given import add_arguments, settings_given
from moldau.broker.main.summaries import SUMMARIES
from moldau.cli.command import Context, Exit

if TYPE_CHECKING:
    from moldau.config import Settings


class Finding(NamedTuple):
    """Something that is open, and the setting that closes it."""

    what: str
    setting: str


class SecurityCommand:
    """The `security` command."""

    summary = SUMMARIES["security"]

    def configure(self, parser: ArgumentParser, /) -> None:
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        check = actions.add_parser(
            "check",
            help="list what is open, and fail if anything is",
            description="Reads the settings of a node, and starts nothing.",
        )
        add_arguments(check)
        check.add_argument("--json", action="store_true", help="write JSON")
        check.add_argument("--debug", action="store_true", default=SUPPRESS, help=SUPPRESS)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.cli.output import write_json, write_table
        from moldau.runtime.real_files import RealFiles

        settings = settings_given(arguments, context.environment, RealFiles())
        found = findings(settings)
        if arguments.json:
            write_json(context.out, [each._asdict() for each in found])
        elif found:
            write_table(context.out, ("open", "setting"), found)
        else:
            context.out.write("nothing is open\n")
        return Exit.FAILED if found else Exit.DONE


def findings(settings: Settings) -> list[Finding]:
    """Return what is open in the settings of a node."""
    from moldau.broker.main.exposure import is_local
    from moldau.broker.server.security import own_settings
    from moldau.broker.settings import read_listeners, tls
    from moldau.broker.settings.security import authorizer_class_name, moldau_authorizer_dry_run

    listeners = read_listeners(settings)
    found = []
    for each in listeners.bound:
        own = own_settings(settings, each.name)
        protocol = each.security_protocol
        name = f"listener {each.name} ({protocol})"
        if protocol in ("PLAINTEXT", "SASL_PLAINTEXT") and not is_local(each.host):
            found.append(Finding(f"{name} sends everything unencrypted", _PROTOCOLS))
        if protocol == "PLAINTEXT":
            found.append(Finding(f"{name} lets everyone in", _PROTOCOLS))
        if protocol == "SSL" and own[tls.ssl_client_auth] != "required":
            setting = f"listener.name.{each.name.lower()}.{tls.ssl_client_auth.name}"
            found.append(Finding(f"{name} takes clients without a certificate", setting))
        if protocol.endswith("SSL") and not own[tls.ssl_endpoint_identification_algorithm]:
            row = tls.ssl_endpoint_identification_algorithm.name
            found.append(Finding(f"{name}: this node checks no host names at others", row))
    if not settings[authorizer_class_name]:
        found.append(
            Finding("every client that is let in may do everything", authorizer_class_name.name)
        )
    if settings[moldau_authorizer_dry_run]:
        row = moldau_authorizer_dry_run.name
        found.append(Finding("denied requests are served: it is a dry run", row))
    return found


_PROTOCOLS = "listener.security.protocol.map"
command = SecurityCommand()
