"""Code of the user's that the producer calls: found by its name, and kept from doing harm.

Invariant: whatever an interceptor or a callback raises is logged, and changes nothing for the
record. A serializer or a partitioner is another matter: without its answer there is nothing to
send, so `send` raises what it raises.

A dotted name in a setting imports code (as Kafka's class names do). So settings that come from
outside, over the network say, must not reach a client unchecked.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from moldau.errors import ConfigError
from moldau.plugins import Plugin, PluginError, Plugins, installed_plugins
from moldau.runtime.cancellation import CancelledError

LOG: Final = logging.getLogger("moldau.client")
_INTERCEPTORS: Final = "interceptor.classes"


class Closable(Protocol):
    """What is ended with its client."""

    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


def guarded(what: str, call: Callable[..., Any], *arguments: object) -> Any:
    """What `call` gives, or None after an error was logged. A CancelledError counts as one, as
    nothing can cancel a call that is not awaited."""
    try:
        return call(*arguments)
    except (Exception, CancelledError):
        LOG.exception("%s failed; the record goes on", what)
        return None


def load_interceptors(
    given: Sequence[object], base: type[T], plugins: Plugins | None = None
) -> list[T]:
    """What `interceptor.classes` names, or objects; ConfigError says what one of them lacks. Those
    of a client have the public methods of `base`, which are called and not awaited."""
    methods = [name for name in vars(base) if not name.startswith("_")]
    found: list[T] = []
    for each in given:
        made = made_from(each, _INTERCEPTORS, "moldau.interceptors", {}, plugins)
        facts = {"setting": _INTERCEPTORS, "type": type(made).__name__}
        missing = [name for name in methods if not callable(getattr(made, name, None))]
        if missing:
            reason = f"names what is no interceptor: derive it from {base.__name__}"
            raise ConfigError(f"{_INTERCEPTORS} {reason}", **facts, missing=missing)
        for name in methods:
            if inspect.iscoroutinefunction(getattr(made, name)):
                reason = "names one with `async` methods: they are called, not awaited"
                raise ConfigError(f"{_INTERCEPTORS} {reason}", **facts, method=name)
        found.append(made)
    return found


def close_all(interceptors: Sequence[T], but: Sequence[object]) -> tuple[T, ...]:
    """Closes interceptors, except these objects; gives those that are left open."""
    left = []
    for each in interceptors:
        if any(each is one for one in but):
            left.append(each)
        else:
            guarded(f"{type(each).__name__}.close", each.close)
    return tuple(left)


def made_from(
    given: object,
    setting: str,
    group: str,
    ours: Mapping[str, Callable[[], Any]],
    plugins: Plugins | None = None,
) -> Any:
    """What a setting names, or the object that it is. A class is called without arguments.

    A name is one of `ours`, else a plugin of the group, else the dotted name of a class that can be
    imported: clients that are given the same name have an instance each. ConfigError says which
    setting could not be followed, and why.
    """
    if not isinstance(given, str):
        return _made(given, setting) if isinstance(given, type) else given
    named = ours.get(given) or _load(given, setting, group, plugins)
    if not isinstance(named, type):
        raise ConfigError(
            f"{setting} names what is no class: clients of that name would share it",
            setting=setting,
            name=given,
            type=type(named).__name__,
        )
    return _made(named, setting)


def _made(kind: type, setting: str) -> Any:
    try:
        return kind()
    except TypeError as error:
        raise ConfigError(
            f"{setting} names a class that cannot be made without arguments: give an object",
            setting=setting,
            type=kind.__name__,
            reason=str(error),
        ) from error


def _load(name: str, setting: str, group: str, plugins: Plugins | None) -> object:
    plugins = installed_plugins() if plugins is None else plugins
    is_plugin = name in plugins.named(group)
    try:
        if is_plugin or ("." not in name and ":" not in name):
            return plugins.load(group, name)
        target = name if ":" in name else ":".join(name.rsplit(".", 1))
        return Plugin(group, name, target, "the setting", "").load()
    except PluginError as error:
        raise ConfigError(
            f"{setting} names what cannot be had",
            setting=setting,
            name=name,
            why=error.context.get("error", error.reason),
        ) from error
