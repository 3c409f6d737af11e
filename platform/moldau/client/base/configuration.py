"""The arguments of a client, apart from the client: they can be sent to where a client is needed.

    configuration = Producer(bootstrap_servers="localhost:9092", linger_ms=20).configuration

    def write(rows):                      # runs in a Spark executor, or in any other process
        with configuration.open() as producer:
            ...

Invariant: it holds the user's arguments and nothing derived from them, so it pickles whenever they
do. Settings may be secrets: the repr shows none.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Mapping
from dataclasses import field
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from moldau.deferred import dataclass
from moldau.runtime.forks import hear_of_forks
from moldau.runtime.loop_thread import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from moldau.client.base.blocking import BlockingClient

C = TypeVar("C", bound="BlockingClient")


class _Shared:
    """The clients that are shared in this process, by their arguments."""

    def __init__(self) -> None:
        self._clients: dict[Hashable, Any] = {}
        self._lock = new_lock()
        hear_of_forks(self)

    def get(self, key: Hashable, make: Callable[[], C]) -> C:
        """Return one client for all callers, until it is closed."""
        with self._lock:
            client: C | None = self._clients.get(key)
            if client is None or client.is_over:
                client = self._clients[key] = make()
            return client

    def forked(self) -> None:
        """Renew the lock: another thread may have held it at the fork."""
        self._lock = new_lock()


_SHARED: Final = _Shared()


@dataclass(frozen=True)
class Configuration(Generic[C]):
    """The arguments for clients of one class."""

    client: type[C]
    settings: Mapping[str, object] = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)

    def __hash__(self) -> int:
        return hash((self.client, frozenset(self.settings), frozenset(self.options)))

    def open(self) -> C:
        """Return a new client, for `with` or `start()`."""
        return self.client.from_config(self)

    def shared(self) -> C:
        """Return the started client that all callers with an equal configuration share in this
        process.

        Do not use it with `with`: it is closed when the process ends, or by `close`, after which
        the next caller gets a new one. Any thread may use a producer or an admin client. A consumer
        belongs to one thread, so it cannot be shared: TypeError.
        """
        if not self.client.is_shareable:
            raise TypeError(f"a {self.client.kind} belongs to one thread: use open()")
        key = (self.client, _each_pickled(self.settings), _each_pickled(self.options))
        client = _SHARED.get(key, self.open)
        client.start()
        return client


def _sorted(value: Any) -> Any:
    """Return equal lists for equal mappings; leave other values as they are."""
    if not isinstance(value, Mapping):
        return value
    return sorted(((name, _sorted(each)) for name, each in value.items()), key=_name)


def _name(item: tuple[object, Any]) -> str:
    return repr(item[0])


def _each_pickled(options: Mapping[str, Any]) -> frozenset[tuple[str, bytes]]:
    """Return the same set for equal options; a TypeError names one that cannot be compared."""
    return frozenset((name, _pickled_option(name, value)) for name, value in options.items())


def _pickled_option(name: str, value: Any) -> bytes:
    try:
        return _pickled(_sorted(value))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise TypeError(
            f"{name} does not pickle, so it cannot be told which configurations are equal to this "
            f"one: {error}; give a function by a name that can be imported, or use open()"
        ) from error


def _pickled(value: object) -> bytes:
    """Return the same bytes for equal values, whether or not equal parts of them are one object. A
    pickle's memo would show that, so none is used unless a value contains itself."""
    stream = BytesIO()
    pickler = pickle.Pickler(stream)
    pickler.fast = True
    try:
        pickler.dump(value)
    except (ValueError, RecursionError):  # a value contains itself
        return pickle.dumps(value)
    return stream.getvalue()
