"""`moldau security check`: what is open in the settings of a node, or at the brokers of a cluster.

A cluster is asked for the settings of its brokers that are up, so `--command-config` needs a user
with DESCRIBE_CONFIGS on the cluster. Brokers do not tell the values of secrets, which are not
needed here, nor `allow.everyone.if.no.acl.found`, which is a setting of the authorizer alone. Nor
do they know what controllers without a broker were given.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.main.given import add_arguments, settings_given
from moldau.broker.main.summaries import SUMMARIES
from moldau.cli.command import Context, Exit, UsageError

if TYPE_CHECKING:
    from moldau.broker.settings import Listener
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
            description="Reads the settings of a node, and starts nothing; or, with --bootstrap "
            "or --command-config, asks the brokers of a cluster for theirs.",
        )
        add_arguments(check)
        check.add_argument(
            "-b",
            "--bootstrap",
            "--bootstrap-server",
            metavar="HOST:PORT[,...]",
            help="where the cluster is",
        )
        check.add_argument("--command-config", metavar="FILE", help="the cluster's client settings")
        check.add_argument("--json", action="store_true", help="write JSON")
        check.add_argument("--debug", action="store_true", default=SUPPRESS, help=SUPPRESS)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.cli.output import write_json, write_table
        from moldau.runtime.real_files import RealFiles

        if arguments.bootstrap or arguments.command_config:
            found = _of_cluster(arguments, context)
        else:
            found = findings(settings_given(arguments, context.environment, RealFiles()))
        if arguments.json:
            write_json(context.out, [each._asdict() for each in found])
        elif found:
            write_table(context.out, ("open", "setting"), found)
        else:
            context.out.write("nothing is open\n")
        return Exit.FAILED if found else Exit.DONE


def _of_cluster(arguments: Namespace, context: Context) -> list[Finding]:
    """Return what is open at the brokers that are up."""
    from moldau.cli.commands.given_settings import given_settings

    if arguments.config or arguments.assignments or arguments.data:
        raise UsageError(
            "--config, --set and --data are about a node that is not asked: give them, "
            "or --bootstrap and --command-config"
        )
    arguments.client_settings = []
    return [
        each._replace(what=f"broker {node_id}: {each.what}")
        for node_id, given in given_settings(arguments, context).items()
        for each in findings(_settings(given))
    ]


def _settings(given: dict[str, str]) -> Settings:
    from moldau.broker.settings import broker_settings
    from moldau.config import overrides

    return broker_settings(overrides(dict(given)))


def findings(settings: Settings) -> list[Finding]:
    """Return what is open in the settings of a node."""
    from moldau.broker.main.exposure import is_local
    from moldau.broker.server.security import own_settings
    from moldau.broker.settings import read_listeners, tls
    from moldau.broker.settings.security import (
        ALLOW_EVERYONE,
        authorizer_class_name,
        moldau_authorizer_dry_run,
    )

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
        found += _of_certificates(settings, each)
        found += (
            Finding(f"{name}: {rule} makes users of principals of every trusted realm", _KERBEROS)
            for rule in _rules_for_all_realms(own, protocol)
        )
        if protocol.endswith("SSL") and not own[tls.ssl_endpoint_identification_algorithm]:
            row = tls.ssl_endpoint_identification_algorithm.name
            found.append(Finding(f"{name}: this node checks no host names at others", row))
    if not settings[authorizer_class_name]:
        found.append(
            Finding("every client that is let in may do everything", authorizer_class_name.name)
        )
    everyone = settings.others.get(ALLOW_EVERYONE)
    if everyone is not None and str(everyone.value).strip().lower() == "true":
        found.append(Finding("what no rule is about is open to every client", ALLOW_EVERYONE))
    if settings[moldau_authorizer_dry_run]:
        row = moldau_authorizer_dry_run.name
        found.append(Finding("denied requests are served: it is a dry run", row))
    return [*found, *_open_registry(settings)]


def _open_registry(settings: Settings) -> list[Finding]:
    """Return the finding of a registry without a login that the network reaches."""
    from moldau.broker.main.exposure import is_local
    from moldau.broker.settings.registry import (
        moldau_registry_http_config,
        moldau_registry_listener,
    )

    address = settings[moldau_registry_listener]
    if not address or settings[moldau_registry_http_config]:
        return []
    host = address.rpartition(":")[0].strip("[]")
    if not host or is_local(host):
        return []
    what = f"the registry at {address} lets every visitor change schemas"
    return [Finding(what, moldau_registry_http_config.name)]


def _of_certificates(settings: Settings, listener: Listener) -> list[Finding]:
    """Return what is open in how a listener asks for the certificates of clients."""
    from moldau.broker.server.security import client_auth, own_settings
    from moldau.broker.settings import tls
    from moldau.link.tls import tls_files

    protocol = listener.security_protocol
    if not protocol.endswith("SSL"):
        return []
    own = own_settings(settings, listener.name)
    wanted, name = client_auth(settings, listener), f"listener {listener.name} ({protocol})"
    prefix = f"listener.name.{listener.name.lower()}."
    setting = prefix + tls.ssl_client_auth.name
    found = []
    if protocol == "SSL" and wanted != "required":
        found.append(Finding(f"{name} takes clients without a certificate", setting))
    if wanted != own[tls.ssl_client_auth]:
        given = f"{tls.ssl_client_auth.name}={own[tls.ssl_client_auth]}"
        what = f"{name} asks for no certificate: {given} has no effect without the prefix"
        found.append(Finding(what, setting))
    if wanted == "required" and not tls_files(own).truststore.is_given:
        what = f"{name} takes a certificate of any authority that the system trusts"
        found.append(Finding(what, prefix + tls.ssl_truststore_location.name))
    return found


def _rules_for_all_realms(own: Settings, protocol: str) -> list[str]:
    """Return the rules of Kerberos at a listener that do not look at the realm."""
    from moldau.broker.security.kerberos_names import parse_kerberos_rules
    from moldau.broker.settings import sasl

    mechanisms = own[sasl.sasl_enabled_mechanisms]
    if not protocol.startswith("SASL") or "GSSAPI" not in mechanisms:
        return []
    rules = own[sasl.sasl_kerberos_principal_to_local_rules]
    parsed = parse_kerberos_rules(rules)
    return [text for text, rule in zip(rules, parsed, strict=True) if rule.ignores_realm]


_PROTOCOLS = "listener.security.protocol.map"
_KERBEROS = "sasl.kerberos.principal.to.local.rules"
command = SecurityCommand()
