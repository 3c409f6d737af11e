"""What is given about the visitors of a console: logins, roles and the audit log. `moldau console`
takes it as options, a broker as settings of the same names: `--oidc-issuer` is
`moldau.console.oidc.issuer`.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import UsageError
from moldau.deferred import dataclass
from moldau.errors import ConfigError

if TYPE_CHECKING:
    from moldau.console.access.oidc import Oidc, OidcClient
    from moldau.console.access.roles import Policy
    from moldau.console.access.visitor import Access
    from moldau.link.http.protection import HttpProtection
    from moldau.logging import Logger
    from moldau.runtime import Runtime

HTTP_CONFIG: Final = "http-config"
ISSUER: Final = "oidc-issuer"
CLIENT_ID: Final = "oidc-client-id"
SECRET_FILE: Final = "oidc-client-secret-file"  # noqa: S105 - the name of an option
ROLES_CLAIM: Final = "oidc-roles-claim"
USER_CLAIM: Final = "oidc-user-claim"
REDIRECT_URI: Final = "oidc-redirect-uri"
ROLES: Final = "roles"
AUDIT_FILE: Final = "audit"
ADMIN: Final = "admin"
CLUSTER: Final = "{cluster}"
"""In the name of the file of roles: the cluster, where a console has several."""
LOCAL: Final = frozenset(("127.0.0.1", "localhost", "::1"))
_OF_OIDC: Final = (CLIENT_ID, SECRET_FILE, ROLES_CLAIM, USER_CLAIM, REDIRECT_URI)
_ROWS: Final = {
    HTTP_CONFIG: (
        "FILE",
        "settings that protect the pages: TLS, client certificates, passwords, bearer tokens "
        "(docs/security.md)",
    ),
    ISSUER: (
        "URL",
        "the OpenID Connect provider that visitors log in at; needs the extra oauth",
    ),
    CLIENT_ID: ("ID", "the console's id at the provider"),
    SECRET_FILE: (
        "FILE",
        "a file with the console's secret at the provider; default: it has none",
    ),
    ROLES_CLAIM: (
        "NAME",
        "the claim of the token that has the visitor's groups; default: groups",
    ),
    USER_CLAIM: (
        "NAME",
        "the claim that names the visitor, such as email; default: sub",
    ),
    REDIRECT_URI: (
        "URL",
        "the address to which the provider sends browsers back, if a proxy hides it; default: "
        "/login/done at the address that the browser asked",
    ),
    ROLES: (
        "FILE",
        "a YAML file: roles of users and groups, of which topics they see messages, and what "
        "is masked in messages (docs/console.md)",
    ),
    AUDIT_FILE: (
        "FILE",
        "add a line of JSON to this file for each change and each look at messages; default: "
        "each change gives a line on standard error",
    ),
}
"""The word for the value of each option, and its help."""
NAMES: Final = tuple(_ROWS)
SETTING_PREFIX: Final = "moldau.console."
"""Before the names of a broker's settings."""
_KEY_BYTES: Final = 32
AUDIT: Final = "moldau.console.audit"


def setting_name(name: str) -> str:
    """Return the broker's setting for an option, without the prefix."""
    return name.replace("-", ".")


@dataclass(frozen=True, slots=True)
class VisitorOptions:
    """What is given, by the names of the options."""

    given: Mapping[str, str]
    is_admin: bool
    """Whether every visitor may change the cluster, if no role says otherwise."""
    name_of: Callable[[str], str]
    """Returns an option's name as the user writes it."""

    @classmethod
    def of_arguments(cls, arguments: Namespace, cluster: str = "") -> VisitorOptions:
        """Return those of a command line, for one of several clusters."""
        found = {name: getattr(arguments, name.replace("-", "_")) for name in NAMES}
        given = {name: value for name, value in found.items() if value is not None}
        if cluster and ROLES in given:
            given[ROLES] = given[ROLES].replace(CLUSTER, cluster)
        return cls(given, arguments.admin, lambda name: f"--{name}")

    @classmethod
    def of_settings(cls, settings: Mapping[str, str]) -> VisitorOptions:
        """Return those of a broker's settings, by their names after `moldau.console.`."""
        found = {name: settings.get(setting_name(name)) for name in NAMES}
        given = {name: value for name, value in found.items() if value is not None}
        is_admin = settings.get(ADMIN) == "true"
        return cls(given, is_admin, lambda name: f"{SETTING_PREFIX}{setting_name(name)}")

    @property
    def cure(self) -> str:
        """What protects a console without a login."""
        return f"{self.name_of(HTTP_CONFIG)} or {self.name_of(ISSUER)}"


def add_visitor_options(parser: ArgumentParser) -> None:
    """Add the options of logins, roles and the audit log."""
    for name, (metavar, text) in _ROWS.items():
        parser.add_argument(f"--{name}", metavar=metavar, help=text)


def check_options(options: VisitorOptions) -> None:
    """Raise UsageError for options that do not go together."""
    given, name_of = options.given, options.name_of
    for each in _OF_OIDC:
        if each in given and ISSUER not in given:
            raise UsageError(f"{name_of(each)} needs {name_of(ISSUER)}")
    if ISSUER not in given:
        return
    if CLIENT_ID not in given:
        raise UsageError(f"{name_of(ISSUER)} needs {name_of(CLIENT_ID)}")
    if options.is_admin and ROLES not in given:
        raise UsageError(
            f"{name_of(ADMIN)} has no effect with {name_of(ISSUER)}: the roles are those of the "
            f"token, or of the file of {name_of(ROLES)}"
        )


@dataclass(frozen=True, slots=True)
class Visitors:
    """What the options come to."""

    protection: HttpProtection
    """What visitors must show beside a login at a provider."""
    access: Access
    client: OidcClient | None
    """What the provider knows the console by; None without one."""

    @property
    def have_login(self) -> bool:
        """Whether no page is for a visitor that has proved nothing."""
        return self.client is not None or not self.protection.is_open

    def are_everyone(self, host: str) -> bool:
        """Whether a console at this address is open to the network."""
        return not self.have_login and host not in LOCAL

    def provider(self, runtime: Runtime, log: Logger) -> Oidc | None:
        """Return the provider, asked by the runtime that serves the pages."""
        from moldau.console.access.oidc import Oidc

        return None if self.client is None else Oidc(self.client, runtime, log)


def visitors_of(options: VisitorOptions, runtime: Runtime, host: str, own: Logger) -> Visitors:
    """Return what the options of a console at this address come to. `own` gets the audit lines that
    no file takes. Raise ConfigError or UsageError."""
    from moldau.link.http.protection import HttpProtection, load_protection

    check_options(options)
    path = options.given.get(HTTP_CONFIG)
    by = HttpProtection() if path is None else load_protection(path, runtime.clock)
    access = _access(options, runtime, by, own)
    is_safe = host in LOCAL or by.context is not None
    return Visitors(by, access, _client(options, runtime, is_safe))


def _access(
    options: VisitorOptions, runtime: Runtime, protection: HttpProtection, own: Logger
) -> Access:
    """Return what visitors may do. Raise ConfigError."""
    from moldau.console.access.roles import BY_CLAIM, Policy
    from moldau.console.access.visitor import Access
    from moldau.logging import Loggers

    has_oidc = ISSUER in options.given
    has_login = has_oidc or protection.asks_login
    policy = Policy(BY_CLAIM) if has_oidc else None
    if ROLES in options.given:
        policy = _policy(options, runtime, has_login)
    has_file = AUDIT_FILE in options.given
    audit = own
    if has_file:
        write = _to_file(runtime, options, own)
        audit = Loggers(runtime.clock, write, json=True).get(AUDIT)
    return Access(options.is_admin, audit, policy, has_file or has_login)


def _policy(options: VisitorOptions, runtime: Runtime, has_login: bool) -> Policy:
    """Return the policy of the file of roles. Raise ConfigError."""
    from moldau.console.access.policy_file import read_policy
    from moldau.console.access.roles import BY_CLAIM, Role

    path, name_of = options.given[ROLES], options.name_of
    found = read_policy(_text(runtime, path, name_of(ROLES)), path)
    if found.has_names and not has_login:
        raise ConfigError(
            "the file of roles names users or groups, and visitors have no login: add "
            f"{name_of(ISSUER)}, or {name_of(HTTP_CONFIG)} with http.users.file",
            path=path,
        )
    if found.has_roles and options.is_admin:
        raise ConfigError(
            f"the file gives roles, so {name_of(ADMIN)} has no effect: leave it out", path=path
        )
    if options.is_admin:
        raise ConfigError(
            f"with {name_of(ADMIN)} every visitor is an admin, so the file has no effect", path=path
        )
    policy = replace(found.policy, hash_key=runtime.random.randbytes(_KEY_BYTES))
    if found.has_roles:
        return policy
    if ISSUER in options.given:
        return replace(policy, roles=BY_CLAIM)
    return replace(policy, fallback=Role.VIEWER)


def _client(options: VisitorOptions, runtime: Runtime, is_safe: bool) -> OidcClient | None:
    """Return what the provider knows the console by. `is_safe` is whether what browsers send is
    encrypted, or stays on this machine. Raise ConfigError."""
    given, name_of = options.given, options.name_of
    if ISSUER not in given:
        return None
    from moldau.console.access.oidc import OidcClient
    from moldau.link.login.signed_tokens import no_keys
    from moldau.link.login.token_endpoint import shown_url
    from moldau.runtime.http_client import check_url

    no_keys()
    fault = check_url(given[ISSUER])
    if fault is not None:
        raise ConfigError(f"{name_of(ISSUER)}: {fault}", value=shown_url(given[ISSUER]))
    redirect = given.get(REDIRECT_URI)
    if not is_safe and not (redirect or "").startswith("https:"):
        raise ConfigError(
            "logins over the network need TLS: give ssl.keystore.location in the file of "
            f"{name_of(HTTP_CONFIG)}, or behind a proxy that has it an address "
            f"https://.../login/done by {name_of(REDIRECT_URI)}"
        )
    path, secret = given.get(SECRET_FILE), None
    if path is not None:
        secret = _text(runtime, path, name_of(SECRET_FILE)).strip()
        if not secret:
            raise ConfigError(f"{name_of(SECRET_FILE)}: the file is empty", path=path)
    claims = given.get(ROLES_CLAIM) or "groups", given.get(USER_CLAIM) or "sub"
    return OidcClient(given[ISSUER], given[CLIENT_ID], secret, *claims, redirect)


def _text(runtime: Runtime, path: str, option: str) -> str:
    from moldau.runtime.places import absolute_path

    try:
        return runtime.files.read_text(absolute_path(path))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{option}: the file cannot be read", path=path, why=why) from None


def _to_file(runtime: Runtime, options: VisitorOptions, own: Logger) -> Callable[[str], object]:
    """Return a function that adds a line to a file, which may be moved away at any time. One that
    cannot be written goes to `own`. Raise ConfigError if the file cannot be opened."""
    from moldau.runtime.places import absolute_path

    path = options.given[AUDIT_FILE]
    place = absolute_path(path)

    def write(line: str) -> None:
        try:
            file = runtime.files.open(place, "write")
            try:
                file.append(line.encode())
            finally:
                file.close()
        except OSError as error:
            why = error.strerror
            own.warn("the audit file cannot be written", path=path, why=why, line=line.rstrip())

    try:
        runtime.files.open(place, "write").close()
    except OSError as error:
        option = options.name_of(AUDIT_FILE)
        raise ConfigError(
            f"{option}: the file cannot be written", path=path, why=error.strerror
        ) from None
    return write
