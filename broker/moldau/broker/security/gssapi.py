"""The server's side of GSSAPI (RFC 4752): logins with Kerberos, checked with a key table.

A login asks nothing of the network: a client's ticket is opened with the keys of the key table,
which is read anew for each login. So steps are done in a thread (`Method.away`).

Invariants: the user is the principal of the ticket, by the rules; the name that a client asks to
act for counts for nothing, as in Kafka (CVE-2017-12610). Nothing but "no security layer" is offered
and accepted. A principal has no login if its name needs escapes or gives an empty user.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Final

from moldau.broker.security.kerberos_names import KerberosNames
from moldau.broker.security.mapping import NoRuleApplies
from moldau.broker.security.mechanism import LoginFailed
from moldau.errors import ConfigError
from moldau.link.login.gss import NO_LAYER, library, principal_name, reason_of

_PRINCIPAL_SHOWN_MAX: Final = 100


def own_realm() -> str:
    """Return the realm of this machine; empty if Kerberos has none in its settings."""
    gssapi = library()
    try:
        name = principal_name("any").canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(name).rpartition("@")[2]


class Acceptor:
    """The keys that clients' tickets are opened with."""

    def __init__(self, keytab: str, principal: str | None) -> None:
        """Raise ConfigError if the key table has no key of the principal."""
        gssapi = library()
        try:
            name = None if principal is None else principal_name(principal)
            self._credentials = gssapi.Credentials(
                name=name,
                mechs=[gssapi.MechType.kerberos],
                usage="accept",
                store={"keytab": keytab},
            )
        except gssapi.exceptions.GSSError as error:
            raise ConfigError(
                f"its key table cannot be used: {reason_of(error)}",
                keytab=keytab,
                principal=principal or "any",
            ) from error

    def context(self) -> Any:
        """Return a context for one login."""
        return library().SecurityContext(creds=self._credentials, usage="accept")


class _Stage(Enum):
    """What the client sends next."""

    TOKEN = auto()
    NOTHING = auto()
    LAYER = auto()


class GssServer:
    """One login."""

    def __init__(self, acceptor: Acceptor, names: KerberosNames) -> None:
        self.user = ""
        self.is_done = False
        self.is_by_token = False
        self.lifetime_ms: int | None = None
        self._acceptor = acceptor
        self._names = names
        self._context: Any = None
        self._stage = _Stage.TOKEN

    def step(self, data: bytes) -> bytes:
        """Take the client's next token, or its choice of a layer."""
        if self.is_done:
            raise LoginFailed("the login is over")
        error_class = library().exceptions.GSSError
        try:
            if self._stage is _Stage.TOKEN:
                return self._accept(data)
            if self._stage is _Stage.NOTHING:
                if data:
                    raise LoginFailed("a message of no bytes is due")
                return self._offer()
            return self._finish(data)
        except error_class as error:
            raise LoginFailed(reason_of(error)) from None

    def _accept(self, data: bytes) -> bytes:
        if not data:
            raise LoginFailed("the first message is empty")
        if self._context is None:
            self._context = self._acceptor.context()
        answer: bytes | None = self._context.step(data)
        if not self._context.complete:
            return answer or b""
        self.user = self._user()
        self._stage = _Stage.NOTHING
        return answer or self._offer()

    def _user(self) -> str:
        principal = str(self._context.initiator_name)
        shown = principal[:_PRINCIPAL_SHOWN_MAX]
        if "\\" in principal:
            raise LoginFailed(f"the principal {shown} has characters that need an escape")
        try:
            user = self._names.user(principal)
        except NoRuleApplies as error:
            raise LoginFailed(f"the principal {shown} has no user: {error}") from None
        if not user:
            raise LoginFailed(f"the rules make an empty user of the principal {shown}")
        return user

    def _offer(self) -> bytes:
        self._stage = _Stage.LAYER
        wrapped: bytes = self._context.wrap(NO_LAYER, False).message
        return wrapped

    def _finish(self, data: bytes) -> bytes:
        chosen = self._context.unwrap(data).message
        if len(chosen) < len(NO_LAYER) or chosen[:1] != NO_LAYER[:1]:
            raise LoginFailed("the client wants a security layer, which is not offered")
        self.is_done = True
        return b""
