"""The authorizer that a node's settings name.

    authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
    super.users=User:admin;User:CN=broker-1
    allow.everyone.if.no.acl.found=false

`standard` is a short name of the same. Any other name is one of a plugin in the entry point group
`moldau.authorizers`: a function that takes settings of the node, and returns an `Authorizer`.

Invariant: a node whose authorizer cannot be made does not start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from moldau.broker.decision.audit import AuditLog
from moldau.broker.decision.authorizer import ALLOW_ALL, Authorizer
from moldau.broker.decision.standard_authorizer import StandardAuthorizer
from moldau.broker.settings.security import (
    ALLOW_EVERYONE,
    SUPER_USERS,
    authorizer_class_name,
    moldau_audit_log,
    moldau_authorizer_dry_run,
)
from moldau.errors import ConfigError
from moldau.plugins import PluginError, installed_plugins
from moldau.runtime.places import absolute_path

if TYPE_CHECKING:
    from moldau.broker.controller.image import Image
    from moldau.config import Settings
    from moldau.logging import Logger
    from moldau.runtime import Runtime

GROUP: Final = "moldau.authorizers"
STANDARD: Final = frozenset(
    (
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "StandardAuthorizer",
        "standard",
    )
)


def authorizer_of(
    settings: Settings,
    image: Callable[[], Image],
    make_audit: Callable[[str], AuditLog] | None = None,
) -> Authorizer:
    """Return the authorizer. `image` returns the committed metadata, `make_audit` the audit log at
    a path. Raise ConfigError."""
    name = settings[authorizer_class_name].strip()
    path, is_dry_run = settings[moldau_audit_log], settings[moldau_authorizer_dry_run]
    if name not in STANDARD:
        _check_needs_standard(path, is_dry_run=is_dry_run)
    if not name:
        return ALLOW_ALL
    if name in STANDARD:
        if is_dry_run and not path:
            raise ConfigError(
                "a dry run denies nothing, so it needs the log of what it would deny",
                setting=moldau_audit_log.name,
            )
        return StandardAuthorizer(
            lambda: image().acls.index,
            super_users_of(_given(settings, SUPER_USERS)),
            allows_by_default=_is_true(ALLOW_EVERYONE, _given(settings, ALLOW_EVERYONE)),
            audit=make_audit(path) if path and make_audit is not None else None,
            is_dry_run=is_dry_run,
        )
    return _plugin(name, settings)


def _check_needs_standard(path: str | None, *, is_dry_run: bool) -> None:
    """Raise ConfigError for settings that only the standard authorizer has."""
    for row, given in ((moldau_audit_log, path), (moldau_authorizer_dry_run, is_dry_run)):
        if given:
            raise ConfigError(
                f"it needs {authorizer_class_name.name}=standard: it is about its decisions",
                setting=row.name,
            )


def audit_maker(runtime: Runtime, log: Logger) -> Callable[[str], AuditLog]:
    """Return a function that opens the audit log at a path."""

    def make(path: str) -> AuditLog:
        def on_failure(error: OSError) -> None:
            log.failure("the audit log cannot be written; decisions go on", error)

        def on_recovery(missing: int) -> None:
            log.info("the audit log is written again", missing_decisions=missing)

        return AuditLog(runtime, absolute_path(path), on_failure, on_recovery)

    return make


def warn_of_dry_run(settings: Settings, log: Logger) -> None:
    """Tell the operator at each start that nothing is denied."""
    if settings[moldau_authorizer_dry_run]:
        log.warn(
            "denied requests are served and written to the audit log: it is a dry run",
            setting=moldau_authorizer_dry_run.name,
            path=settings[moldau_audit_log],
        )


def note_ready(authorizer: Authorizer) -> None:
    """Let the authorizer decide: the metadata is known up to the end of the log."""
    if isinstance(authorizer, StandardAuthorizer):
        authorizer.is_ready = True


async def close_audit(authorizer: Authorizer | None) -> None:
    """Write what is left of the audit log, if there is one."""
    if isinstance(authorizer, StandardAuthorizer):
        await authorizer.aclose()


def super_users_of(text: str) -> tuple[str, ...]:
    """Return the principals of `super.users`. Raise ConfigError for a text that is no principal."""
    names = tuple(each.strip() for each in text.split(";") if each.strip())
    for each in names:
        kind, colon, name = each.partition(":")
        if not kind or not colon or not name:
            raise ConfigError(
                f"{SUPER_USERS}: {each!r} is no principal; give User:NAME, and ; between several"
            )
    return names


def _given(settings: Settings, name: str) -> str:
    given = settings.others.get(name)
    return "" if given is None else str(given.value)


def _is_true(name: str, text: str) -> bool:
    wanted = text.strip().lower()
    if wanted not in ("true", "false", ""):
        raise ConfigError(f"{name}={text}: give true or false")
    return wanted == "true"


def _plugin(name: str, settings: Settings) -> Authorizer:
    plugins = installed_plugins().named(GROUP)
    plugin = plugins.get(name)
    if plugin is None:
        known = ", ".join(sorted(plugins)) or "none is installed"
        raise ConfigError(
            f"{authorizer_class_name.name} names {name}: give "
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer, or the name of a plugin in "
            f"the entry point group {GROUP} ({known})"
        )
    try:
        make = cast("Callable[[Mapping[str, str]], Authorizer]", plugin.load())
    except PluginError as error:
        raise ConfigError(f"{authorizer_class_name.name}={name}: {error}") from error
    made = make({each: str(given.value) for each, given in settings.others.items()})
    check_authorizer(made)
    return made


def check_authorizer(made: object) -> None:
    """Raise ConfigError if a plugin returned something else than an authorizer."""
    wanted = ("allows_all", "uses_rules", "allowed", "allowed_on_some")
    lacking = [each for each in wanted if getattr(made, each, None) is None]
    if lacking:
        raise ConfigError(
            f"an authorizer of {GROUP} lacks {', '.join(lacking)}; see moldau.broker.decision."
            "authorizer.Authorizer"
        )
