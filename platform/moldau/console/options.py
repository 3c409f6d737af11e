"""The options of `moldau console` about its visitors: logins, roles and the audit log."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, UsageError
from moldau.errors import ConfigError

if TYPE_CHECKING:
    from moldau.console.access import Access
    from moldau.console.oidc import Oidc
    from moldau.console.roles import Policy
    from moldau.link.http_protection import HttpProtection
    from moldau.runtime import Runtime

_OF_OIDC: Final = (
    "oidc_client_id",
    "oidc_client_secret_file",
    "oidc_roles_claim",
    "oidc_user_claim",
    "oidc_redirect_uri",
)
_KEY_BYTES: Final = 32
AUDIT: Final = "moldau.console.audit"


def add_visitor_options(parser: ArgumentParser) -> None:
    """Add the options of logins, roles and the audit log."""
    add = parser.add_argument
    add(
        "--http-config",
        metavar="FILE",
        help="settings that protect the pages: TLS, client certificates, passwords, bearer tokens "
        "(docs/security.md)",
    )
    add(
        "--oidc-issuer",
        metavar="URL",
        help="the OpenID Connect provider that visitors log in at; needs the extra oauth",
    )
    add("--oidc-client-id", metavar="ID", help="the console's id at the provider")
    add(
        "--oidc-client-secret-file",
        metavar="FILE",
        help="a file with the console's secret at the provider; default: it has none",
    )
    add(
        "--oidc-roles-claim",
        metavar="NAME",
        help="the claim of the token that has the visitor's groups; default: groups",
    )
    add(
        "--oidc-user-claim",
        metavar="NAME",
        help="the claim that names the visitor, such as email; default: sub",
    )
    add(
        "--oidc-redirect-uri",
        metavar="URL",
        help="the address to which the provider sends browsers back, if a proxy hides it; default: "
        "/login/done at the address that the browser asked",
    )
    add(
        "--roles",
        metavar="FILE",
        help="a YAML file: roles of users and groups, of which topics they see messages, and what "
        "is masked in messages (docs/console.md)",
    )
    add(
        "--audit",
        metavar="FILE",
        help="add a line of JSON to this file for each change and each look at messages; default: "
        "each change gives a line on standard error",
    )


def check_options(arguments: Namespace) -> None:
    """Raise UsageError for options that do not go together."""
    given = [each for each in _OF_OIDC if getattr(arguments, each) is not None]
    if arguments.oidc_issuer is None and given:
        raise UsageError(f"--{given[0].replace('_', '-')} needs --oidc-issuer")
    if arguments.oidc_issuer is not None and arguments.oidc_client_id is None:
        raise UsageError("--oidc-issuer needs --oidc-client-id")
    if arguments.oidc_issuer is not None and arguments.admin and arguments.roles is None:
        raise UsageError(
            "--admin has no effect with --oidc-issuer: the roles are those of the token, or of "
            "--roles FILE"
        )


def access_of(
    arguments: Namespace, runtime: Runtime, context: Context, protection: HttpProtection
) -> Access:
    """Return what visitors may do. Raise ConfigError or UsageError."""
    from moldau.console.access import Access
    from moldau.console.roles import BY_CLAIM, Policy
    from moldau.logging import Loggers

    has_oidc = arguments.oidc_issuer is not None
    has_login = has_oidc or protection.asks_login
    policy = Policy(BY_CLAIM) if has_oidc else None
    if arguments.roles is not None:
        policy = _policy(arguments, runtime, has_login)
    is_json = arguments.audit is not None
    write = _to_file(runtime, arguments.audit, context) if is_json else context.err.write
    loggers = Loggers(runtime.clock, write, json=is_json)
    looks = is_json or has_login
    return Access(arguments.admin, loggers.get(AUDIT), policy, looks)


def _policy(arguments: Namespace, runtime: Runtime, has_login: bool) -> Policy:
    """Return the policy of `--roles`. Raise ConfigError."""
    from moldau.console.policy_file import read_policy
    from moldau.console.roles import BY_CLAIM, Role

    path = arguments.roles
    found = read_policy(_text(runtime, path, "--roles"), path)
    if found.has_names and not has_login:
        raise ConfigError(
            "the file of roles names users or groups, and visitors have no login: add "
            "--oidc-issuer, or --http-config with http.users.file",
            path=path,
        )
    if found.has_roles and arguments.admin:
        raise ConfigError("the file gives roles, so --admin has no effect: leave it out", path=path)
    if arguments.admin:
        raise ConfigError(
            "with --admin every visitor is an admin, so the file has no effect", path=path
        )
    policy = replace(found.policy, hash_key=runtime.random.randbytes(_KEY_BYTES))
    if found.has_roles:
        return policy
    if arguments.oidc_issuer is not None:
        return replace(policy, roles=BY_CLAIM)
    return replace(policy, fallback=Role.VIEWER)


def oidc_of(arguments: Namespace, runtime: Runtime, context: Context, is_safe: bool) -> Oidc | None:
    """Return the provider of `--oidc-issuer`. `is_safe` is whether what browsers
    send is encrypted, or stays on this machine. Raise ConfigError."""
    if arguments.oidc_issuer is None:
        return None
    from moldau.console.oidc import Oidc, OidcClient
    from moldau.link.signed_tokens import no_keys
    from moldau.link.token_endpoint import shown_url
    from moldau.logging import Loggers
    from moldau.runtime.http_get import check_url

    no_keys()
    fault = check_url(arguments.oidc_issuer)
    if fault is not None:
        raise ConfigError(f"--oidc-issuer: {fault}", value=shown_url(arguments.oidc_issuer))
    redirect = arguments.oidc_redirect_uri
    if not is_safe and not (redirect or "").startswith("https:"):
        raise ConfigError(
            "logins over the network need TLS: give ssl.keystore.location in --http-config, or "
            "behind a proxy that has it --oidc-redirect-uri https://.../login/done"
        )
    path, secret = arguments.oidc_client_secret_file, None
    if path is not None:
        secret = _text(runtime, path, "--oidc-client-secret-file").strip()
        if not secret:
            raise ConfigError("--oidc-client-secret-file: the file is empty", path=path)
    client = OidcClient(
        arguments.oidc_issuer,
        arguments.oidc_client_id,
        secret,
        arguments.oidc_roles_claim or "groups",
        arguments.oidc_user_claim or "sub",
        redirect,
    )
    log = Loggers(runtime.clock, context.err.write).get("moldau.console.logins")
    return Oidc(client, runtime, log)


def _text(runtime: Runtime, path: str, option: str) -> str:
    from moldau.runtime.places import absolute_path

    try:
        return runtime.files.read_text(absolute_path(path))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{option}: the file cannot be read", path=path, why=why) from None


def _to_file(runtime: Runtime, path: str, context: Context) -> Callable[[str], object]:
    """Return a function that adds a line to a file, which may be moved away at any time. One that
    cannot be written goes to standard error. Raise ConfigError if the file cannot be opened."""
    from moldau.runtime.places import absolute_path

    place = absolute_path(path)

    def write(line: str) -> None:
        try:
            file = runtime.files.open(place, "write")
            try:
                file.append(line.encode())
            finally:
                file.close()
        except OSError as error:
            context.err.write(f"moldau: {path} cannot be written ({error.strerror}): {line}")

    try:
        runtime.files.open(place, "write").close()
    except OSError as error:
        raise ConfigError(
            "--audit: the file cannot be written", path=path, why=error.strerror
        ) from None
    return write
