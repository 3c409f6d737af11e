"""Logins with Kerberos: SASL's GSSAPI (RFC 4752), as a client. The library is the extra `kerberos`.

The library asks the name service and the key distribution center by itself, and reads files, so a
step of a login is `Work` for a thread. It encrypts nothing but the login: the connection has TLS or
nothing, as in Kafka.

Invariants: the broker proves itself before the client tells it anything. The tickets of a key table
are in memory, of one client alone, and are renewed by the library; those of `kinit` stay where they
are. An error has the library's own reason, and no secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import partial
from itertools import count
from typing import Any, Final, NoReturn

from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.login.sasl import Exchange, LoginRefused, Work
from moldau.plugins.extras import install_command

SERVICE: Final = "kafka"
NO_LAYER: Final = b"\x01\x00\x00\x00"
"""The message about encryption: none, so that no size of messages counts."""
_CODES: Final = 2**32
_UNREACHABLE: Final = frozenset(code % _CODES for code in (-1765328228, -1765328164))
"""KRB5_KDC_UNREACH and KRB5_REALM_CANT_RESOLVE: another attempt may help."""
_NO_CACHE: Final = -1765328189 % _CODES
_HINTS: Final[Mapping[int, str]] = {
    -1765328377 % _CODES: "is sasl.kerberos.service.name right, and the host name that of the "
    "broker's principal?",
    -1765328353 % _CODES: "the key table has another key than the center: export it again",
    -1765328352 % _CODES: "run kinit again, or give a key table",
    -1765328347 % _CODES: "set the clocks of the machines",
}
"""What to do, by the code of the library: unknown server, bad integrity, expired ticket, skew."""
_NUMBERS: Final = count(1)


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """What a client logs in with. Without a key table it is the ticket that `kinit` brought."""

    service: str = SERVICE
    """The first component of the brokers' principals."""
    principal: str | None = None
    keytab: str | None = None
    cache: str | None = None
    """The cache of tickets; None for the usual one, or one in memory with a key table."""

    def with_own_cache(self) -> KerberosLogin:
        """Return the login with a cache in memory of its own, if it has a key table."""
        if self.keytab is None:
            return self
        name = f"MEMORY:moldau-{next(_NUMBERS)}"
        return KerberosLogin(self.service, self.principal, self.keytab, name)

    def store(self) -> dict[str, str]:
        """Return where tickets and keys are, in the library's words."""
        found = {}
        if self.keytab is not None:
            found["client_keytab"] = self.keytab
        if self.cache is not None:
            found["ccache"] = self.cache
        return found


def library() -> Any:
    """Return the library. Raise ConfigError if it is not installed."""
    try:
        import gssapi
    except ImportError as error:
        raise ConfigError(
            f"GSSAPI needs the package gssapi: {install_command('kerberos')}; where no wheel fits "
            "it is compiled with Kerberos's headers (Debian: libkrb5-dev)"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"GSSAPI needs the Kerberos libraries (Debian: libgssapi-krb5-2): {error}"
        ) from error
    return gssapi


def reason_of(error: Any) -> str:
    """Return an error of the library in its own words, without the codes."""
    code, is_major = (error.min_code, False) if error.min_code else (error.maj_code, True)
    return "; ".join(error.get_all_statuses(code, is_major)) or type(error).__name__


def principal_name(text: str) -> Any:
    """Return a principal. Raise the library's error."""
    gssapi = library()
    return gssapi.Name(text, gssapi.NameType.kerberos_principal)


@dataclass(slots=True)
class _Initiator:
    """The client's side of one login."""

    login: KerberosLogin
    host: str
    context: Any = field(default=None, repr=False)

    def begin(self) -> bytes:
        """Get a ticket for the broker, and return the first token."""
        gssapi = library()
        login = self.login
        flags = gssapi.RequirementFlag
        service = gssapi.NameType.hostbased_service
        self.context = gssapi.SecurityContext(
            name=gssapi.Name(f"{login.service}@{self.host}", service),
            creds=self._credentials(gssapi),
            mech=gssapi.MechType.kerberos,
            flags=flags.mutual_authentication | flags.integrity | flags.out_of_sequence_detection,
            usage="initiate",
        )
        return self.context.step(None) or b""

    def _credentials(self, gssapi: Any) -> Any:
        login = self.login
        name = None if login.principal is None else principal_name(login.principal)
        store = login.store()
        if name is None and not store:
            return None
        mechs = [gssapi.MechType.kerberos]
        return gssapi.Credentials(name=name, mechs=mechs, usage="initiate", store=store or None)

    def step(self, data: bytes) -> bytes:
        """Take the broker's token, and return the next one."""
        return self.context.step(data) or b""

    def choose_no_layer(self, data: bytes) -> bytes:
        """Take what the broker offers to encrypt, and return that nothing is."""
        offered = self.context.unwrap(data).message
        if len(offered) != len(NO_LAYER) or not offered[0] & NO_LAYER[0]:
            raise LoginRefused(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                "the broker demands a security layer of GSSAPI; use TLS instead",
            )
        wrapped: bytes = self.context.wrap(NO_LAYER, False).message
        return wrapped


def kerberos(login: KerberosLogin, host: str) -> Exchange:
    """Log in at the broker with this host name."""
    initiator = _Initiator(login, host)
    token = yield _work(initiator, initiator.begin)
    answer = yield token
    while not initiator.context.complete:
        token = yield _work(initiator, partial(initiator.step, answer))
        answer = yield token
    yield (yield _work(initiator, partial(initiator.choose_no_layer, answer)))


def _work(initiator: _Initiator, step: Callable[[], bytes]) -> Work:
    gssapi = library()

    def call() -> bytes:
        try:
            return step()
        except gssapi.exceptions.GSSError as error:
            _fail(error, initiator)

    return Work(call)


def _fail(error: Any, initiator: _Initiator) -> NoReturn:
    login, facts = initiator.login, {}
    facts["service"] = f"{login.service}/{initiator.host}"
    if login.principal is not None:
        facts["principal"] = login.principal
    if login.keytab is not None:
        facts["keytab"] = login.keytab
    code = error.min_code % _CODES
    reason = "; ".join(filter(None, (reason_of(error), _HINTS.get(code))))
    if code == _NO_CACHE and login.keytab is not None:
        reason = "the key table cannot be read, or has no key of the principal"
    if code in _UNREACHABLE:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, reason, **facts) from None
    raise LoginRefused(ErrorCode.SASL_AUTHENTICATION_FAILED, reason, **facts) from None


_IGNORED: Final = frozenset(
    ("clearpass", "debug", "donotprompt", "isinitiator", "refreshkrb5config", "renewtgt")
    + ("storekey", "storepass", "tryfirstpass", "usefirstpass")
)
"""Options of Java's module about how Java gets and keeps tickets, in lower case."""


def kerberos_login(
    service: str | None, principal: str | None, keytab: str | None, options: Mapping[str, str]
) -> KerberosLogin:
    """Return the login of settings, and of the options of Java's Krb5LoginModule, which come first.
    Raise ConfigError."""
    given = dict(_known(options))
    service = given.get("servicename") or service or SERVICE
    principal = given.get("principal", principal)
    cache = None
    if options:
        keytab = given.get("keytab") if _is_true(given.get("usekeytab")) else None
        uses_cache = _is_true(given.get("useticketcache"))
        if keytab is None and not uses_cache:
            raise ConfigError(
                'it has neither useKeyTab=true keyTab="FILE" nor useTicketCache=true, and Kerberos '
                "asks for no passwords here",
                setting="sasl.jaas.config",
            )
        cache = given.get("ticketcache") if uses_cache and keytab is None else None
    return KerberosLogin(service, principal, keytab, cache).with_own_cache()


def _known(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    used = ("servicename", "principal", "keytab", "usekeytab", "useticketcache", "ticketcache")
    for name, value in options.items():
        if name.lower() in used:
            yield name.lower(), value
        elif name.lower() not in _IGNORED:
            raise ConfigError(f"{name} is no option of Krb5LoginModule", setting="sasl.jaas.config")


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() == "true"
