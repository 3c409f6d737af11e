"""Find listeners that are open to the whole network, which start only if the user asks for them.

`--insecure`, or `moldau.listeners.insecure=true`, asks for them; so does `--kafka-environment`, as
containers of apache/kafka listen to their own network without a word. Each start warns of them.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from moldau.broker.settings import read_listeners
from moldau.broker.settings.network import moldau_listeners_insecure
from moldau.config import GivenValue, Source, SourceKind
from moldau.errors import ConfigError
from moldau.link.addresses import Address

if TYPE_CHECKING:
    from moldau.broker.settings import Listener
    from moldau.config import Layer, Settings
    from moldau.logging import Logger

_LOCAL: Final = "localhost"
_EVERY: Final = "every address"


def exposed(listeners: Iterable[Listener]) -> list[Listener]:
    """Return the listeners without logins and encryption whose address is not only this machine's.
    A host name counts as open, except `localhost`: its address may change."""
    return [
        each
        for each in listeners
        if each.security_protocol == "PLAINTEXT" and not is_local(each.host)
    ]


def is_local(host: str) -> bool:
    """Whether the address is this machine's alone."""
    if host.lower() == _LOCAL:
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def insecure_layer(arguments: Namespace, settings: Settings) -> Layer:
    """Return the setting that `--insecure` is short for. `--kafka-environment` implies it where
    nothing else gives it."""
    row = moldau_listeners_insecure
    if arguments.insecure:
        option = "--insecure"
    elif arguments.kafka_environment and not settings.is_given(row):
        option = "--kafka-environment"
    else:
        return ()
    return (GivenValue(row.name, "true", Source(SourceKind.COMMAND_LINE, option)),)


def refuse_exposed(settings: Settings) -> None:
    """Raise ConfigError for the first exposed listener, of clients or of controllers, unless the
    settings ask for such listeners."""
    if settings[moldau_listeners_insecure]:
        return
    for each in exposed(read_listeners(settings).bound):
        raise ConfigError(
            "other machines reach this listener, and it has no login and no encryption: bind it to "
            "localhost or give it SSL or SASL_SSL (`moldau init --secure DIR` makes such a node), "
            f"or ask for it with --insecure or {moldau_listeners_insecure.name}=true",
            listener=each.name,
            address=str(Address(each.host or _EVERY, each.port)),
        )


def warn_of_exposed(settings: Settings, log: Logger) -> None:
    """Warn of the exposed listeners of a node that is up."""
    open_to_all = exposed(read_listeners(settings).bound)
    if open_to_all:
        log.warn(
            "all that reach this machine can read, write and delete: no login, no encryption",
            listeners=", ".join(f"{each.name} on {each.host or _EVERY}" for each in open_to_all),
        )
