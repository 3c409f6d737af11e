"""The client of a Schema Registry, as an application uses it.

Answers that never change (the schema of an id, the id of a schema under a subject) are cached. The
latest version of a subject is cached for `latest.cache.ttl.sec`. Each cache has a bounded size.
Everything else is requested from the registry on each call.

A client can be used on several event loops, also at the same time in several threads: each loop has
its own connections, and all share the caches. It can also be used by processes after a fork. A
pickled client is made anew from its arguments. Errors are `RegistryError`, with the registry's own
error code and message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar, Unpack
from urllib.parse import quote, urlencode

from moldau.client.base.user_code import LOG
from moldau.client.serdes.registry.cache import Cache
from moldau.client.serdes.registry.http import (
    REDIRECTS,
    HttpRequest,
    authorization,
    parse_url,
)
from moldau.client.serdes.registry.naming import (
    SchemaOptions,
    references_of,
    schema_to_read,
    schema_to_write,
)
from moldau.client.serdes.registry.schemas import (
    LATEST,
    Compatibility,
    Config,
    OddAnswer,
    RegisteredSchema,
    RegistryError,
    compatibility_of,
    config_of,
    many,
    number_of,
    place_of,
    registered_of,
    schema_of,
    text_of,
    want,
)
from moldau.client.serdes.registry.shell import Registry, RetryPolicy, closed
from moldau.client.settings import serdes as rows
from moldau.client.settings.options import RegistryOptions
from moldau.config import BadSettings, Problem, Settings
from moldau.errors import ConfigError
from moldau.runtime.backoff import Backoff
from moldau.runtime.http_client import HttpTimeouts
from moldau.values.schema import Schema

if TYPE_CHECKING:
    import ssl

    from moldau.runtime import Clock, Runtime
    from moldau.runtime.http_client import HttpAnswer

T = TypeVar("T")

_OK: Final = range(200, 300)
_SHOWN_CHARS_MAX: Final = 200
_REFUSED: Final = {
    401: "the schema registry wants a name and password or a token: see basic.auth.user.info and "
    "bearer.auth.token",
    403: "the schema registry does not allow this to the name that is used",
}
_STAYS: Final = {
    "runtime": "leave it out, and it makes one where it is used",
    "tls": "say by settings which files it is made of: schema.registry.ssl.truststore.location, "
    "schema.registry.ssl.keystore.location",
}
"""Arguments that cannot be pickled, and what to use instead."""


class RegistryGiven(Protocol):
    """A client of a registry: the asyncio client or the blocking one."""

    @property
    def asynchronous(self) -> SchemaRegistry:
        """The asyncio client, which serdes use on every event loop that awaits them."""
        ...


class SchemaRegistry:
    """An asyncio client of one Schema Registry."""

    def __init__(
        self,
        settings: Settings | Mapping[str, object] | str | None = None,
        *,
        runtime: Runtime | None = None,
        tls: ssl.SSLContext | None = None,
        **options: Unpack[RegistryOptions],
    ) -> None:
        """Take an address, or settings by Confluent's names; `options` are settings with
        underscores for dots. Raise ConfigError if no address is given."""
        self.given = _named(settings, options)
        self.settings = settings if isinstance(settings, Settings) else _resolved(self.given)
        if not self.settings[rows.registry_url]:
            raise ConfigError(
                'no address of a registry: give one, such as "http://localhost:8081"',
                setting=rows.registry_url.name,
            )
        self._stays = {"runtime": runtime, "tls": tls}
        self._clock = _clock(runtime)
        self._registry = _registry(self.settings, tls, runtime)
        size = self.settings[rows.cache_size]
        self._schemas: Cache[tuple[int | str, str | None], Schema] = Cache(size)
        self._ids: Cache[tuple[str, Schema, bool], int] = Cache(size)
        self._versions: Cache[tuple[str, int], RegisteredSchema] = Cache(size)
        self._found: Cache[tuple[str, Schema, bool], RegisteredSchema] = Cache(size)
        self._latest: Cache[str, tuple[float, RegisteredSchema]] = Cache(size)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. Waiting requests raise RegistryError. Cached answers that do not
        expire can still be used. May be called again."""
        await self._registry.aclose()

    def _close_soon(self) -> None:
        """Close as `aclose` does, without waiting, from any thread. The blocking client uses it."""
        self._registry.close_soon()

    @property
    def asynchronous(self) -> SchemaRegistry:
        """This client itself."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        for name, instead in _STAYS.items():
            if self._stays[name] is not None:
                raise TypeError(
                    f"a SchemaRegistry that was made with `{name}` cannot be pickled: {instead}"
                )
        return type(self), (self.given,)

    # Schemas by id

    async def schema(self, schema_id: int, *, format: str | None = None) -> Schema:
        """Return the schema with this id. For protobuf, `format="serialized"` gives descriptors."""
        return await self._schema(schema_id, f"/schemas/ids/{schema_id}", format)

    async def schema_by_guid(self, guid: str, *, format: str | None = None) -> Schema:
        """Return the schema with this GUID, which is the same in every registry that has it."""
        return await self._schema(guid, f"/schemas/guids/{quote(guid, safe='')}", format)

    async def _schema(self, key: int | str, path: str, format: str | None) -> Schema:
        known = self._schemas.get((key, format))
        if known is not None:
            return known

        async def ask() -> Schema:
            found = await self._get(path, schema_of, **_set(format=format or None))
            return self._schemas.put((key, format), found)

        return await self._registry.once(("schema", key, format), ask)

    async def schema_to_read(
        self, options: SchemaOptions, key: int | str, *, format: str | None = None
    ) -> Schema:
        """Return the schema with this id or GUID, to read values with. Raise RulesNotRun if it has
        rules for what is read, unless the options leave them aside."""
        return await schema_to_read(self, options, key, format)

    async def schema_to_write(
        self, options: SchemaOptions, subject: str, own: Schema | None
    ) -> tuple[int, Schema]:
        """Return the id and the schema to write values of the subject with, as a serializer with
        these options and its own schema finds it. Raise RulesNotRun if it has rules for what is
        written, unless the options leave them aside."""
        return await schema_to_write(self, options, subject, own)

    async def references(self, schema: Schema, *, format: str | None = None) -> dict[str, Schema]:
        """Return all schemas that a schema refers to by their names there, each after those that it
        needs itself. Raise ConfigError if they go in a circle."""
        return await references_of(self, schema, format)

    def known_schema(self, schema_id: int | str, *, format: str | None = None) -> Schema | None:
        """Return what `schema` returns if it is cached, else None."""
        return self._schemas.get((schema_id, format))

    async def schema_subjects(self, schema_id: int) -> list[str]:
        """Return the subjects that have the schema."""
        return await self._get(f"/schemas/ids/{schema_id}/subjects", many(text_of))

    async def schema_versions(self, schema_id: int) -> list[tuple[str, int]]:
        """Return each (subject, version) that has the schema."""
        return await self._get(f"/schemas/ids/{schema_id}/versions", many(place_of))

    async def schema_types(self) -> list[str]:
        """Return the types of schemas that this registry supports."""
        return await self._get("/schemas/types", many(text_of))

    # Subjects

    async def subjects(self, *, prefix: str | None = None, deleted: bool = False) -> list[str]:
        """Return the subjects that begin with `prefix`; `deleted` adds the soft-deleted ones."""
        query = _set(subjectPrefix=prefix, deleted=deleted or None)
        return await self._get("/subjects", many(text_of), **query)

    async def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Register the schema as a version, unless the subject has it already. Return its id."""
        key = (subject, schema, normalize)
        known = self._ids.get(key)
        if known is not None:
            return known

        async def ask() -> int:
            query = _set(normalize=normalize or None)
            path = f"/subjects/{quote(subject, safe='')}/versions"
            made = await self._ask("POST", path, _id_of, schema.to_json(), query, subject=subject)
            return self._ids.put(key, made)

        return await self._registry.once(("register", *key), ask)

    async def lookup(
        self, subject: str, schema: Schema, *, normalize: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        """Return the subject's version with this schema. Raise RegistryError if there is none."""
        key = (subject, schema, normalize)
        known = None if deleted else self._found.get(key)
        if known is not None:
            return known

        async def ask() -> RegisteredSchema:
            query = _set(normalize=normalize or None, deleted=deleted or None)
            path = f"/subjects/{quote(subject, safe='')}"
            body = schema.to_json()
            found = await self._ask("POST", path, registered_of, body, query, subject=subject)
            return found if deleted else self._found.put(key, found)

        return await self._registry.once(("lookup", *key, deleted), ask)

    async def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Return the version numbers of a subject."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        return await self._get(path, many(number_of), **_set(deleted=deleted or None))

    async def version(
        self, subject: str, version: int, *, deleted: bool = False
    ) -> RegisteredSchema:
        """Return one version of a subject."""
        known = None if deleted else self._versions.get((subject, version))
        if known is not None:
            return known
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        found = await self._get(path, registered_of, **_set(deleted=deleted or None))
        return found if deleted else self._versions.put((subject, version), found)

    async def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest version of a subject, cached for `latest.cache.ttl.sec`."""
        known = self.known_latest(subject)
        if known is not None:
            return known

        async def ask() -> RegisteredSchema:
            found = await self._ask_latest(subject)
            self._latest.put(subject, (self._clock.monotonic(), found))
            return found

        return await self._registry.once(("latest", subject), ask)

    async def _ask_latest(self, subject: str) -> RegisteredSchema:
        path = f"/subjects/{quote(subject, safe='')}/versions/{LATEST}"
        return await self._get(path, registered_of)

    def known_latest(self, subject: str) -> RegisteredSchema | None:
        """Return what `latest` returns if it is cached and not expired, else None."""
        known = self._latest.get(subject)
        ttl_s = self.settings[rows.latest_cache_ttl_s]
        if known is None or 0 <= ttl_s < self._now() - known[0]:
            return None
        return known[1]

    async def referenced_by(self, subject: str, version: int) -> list[int]:
        """Return the ids of the schemas that refer to this version."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}/referencedby"
        return await self._get(path, many(number_of))

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Soft-delete all versions; `permanent` removes soft-deleted ones. Return their numbers."""
        path = f"/subjects/{quote(subject, safe='')}"
        query = _set(permanent=permanent or None)
        deleted = await self._ask("DELETE", path, many(number_of), None, query)
        self.forget()
        return deleted

    async def delete_version(
        self, subject: str, version: int | str, *, permanent: bool = False
    ) -> int:
        """Soft-delete one version (or "latest"); `permanent` removes it. Return its number."""
        if str(version) in (LATEST, "-1"):  # a retried "latest" would delete one more
            version = (await self._ask_latest(subject)).version
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        query = _set(permanent=permanent or None)
        deleted = await self._ask("DELETE", path, number_of, None, query)
        self.forget()
        return deleted

    # Compatibility, configuration, modes

    async def is_compatible(
        self,
        subject: str,
        schema: Schema,
        version: int | str | None = LATEST,
        *,
        normalize: bool = False,
    ) -> Compatibility:
        """Check the schema against that version, or with None against all versions that the
        subject's compatibility level requires."""
        suffix = "" if version is None else f"/{version}"
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions{suffix}"
        query = _set(verbose=True, normalize=normalize or None)
        body = schema.to_json()
        return await self._ask("POST", path, compatibility_of, body, query, subject=subject)

    async def config(self, subject: str | None = None, *, effective: bool = False) -> Config:
        """Return the configuration of the subject, or the global one. With `effective`, return the
        global one for a subject that has none."""
        query = _set(defaultToGlobal=effective or None)
        return await self._get(f"/config{_below(subject)}", config_of, **query)

    async def set_config(self, config: Config, subject: str | None = None) -> Config:
        """Change the fields that are set in `config`, for the subject or globally."""
        path = f"/config{_below(subject)}"
        return await self._ask("PUT", path, config_of, config.to_json(), {}, subject=subject)

    async def delete_config(self, subject: str | None = None) -> None:
        """Reset the subject to the global configuration, or the global one to the default."""
        await self._ask("DELETE", f"/config{_below(subject)}", _ignore, None, {}, subject=subject)

    async def mode(self, subject: str | None = None, *, effective: bool = False) -> str:
        """Return the mode, as in `config`: READWRITE, READONLY, READONLY_OVERRIDE or IMPORT."""
        query = _set(defaultToGlobal=effective or None)
        return await self._get(f"/mode{_below(subject)}", _mode_of, **query)

    async def set_mode(self, mode: str, subject: str | None = None, *, force: bool = False) -> str:
        """Set the mode of the subject, or the global one. Return the new mode."""
        path = f"/mode{_below(subject)}"
        return await self._ask("PUT", path, _mode_of, {"mode": mode}, _set(force=force or None))

    async def delete_mode(self, subject: str) -> None:
        """Remove the subject's mode, so that the global one applies."""
        await self._ask("DELETE", f"/mode{_below(subject)}", _ignore, None, {}, subject=subject)

    async def contexts(self) -> list[str]:
        """Return the contexts of this registry. The default context is called "."."""
        return await self._get("/contexts", many(text_of))

    def forget(self) -> None:
        """Clear all caches."""
        for cache in (self._schemas, self._ids, self._versions, self._found, self._latest):
            cache.clear()

    # Asking

    def _now(self) -> float:
        """Return the time. Raise RegistryError on a closed client: the entry whose age is computed
        may have to be requested again, which is no longer possible."""
        if self._registry.is_closed:
            raise closed()
        return self._clock.monotonic()

    async def _get(self, path: str, read: Callable[[object], T], **query: str) -> T:
        return await self._ask("GET", path, read, None, query)

    async def _ask(
        self,
        method: str,
        path: str,
        read: Callable[[object], T],
        body: Any,
        query: Mapping[str, str],
        **facts: Any,
    ) -> T:
        """Return what `read` makes of the answer. Raise RegistryError if the request fails."""
        target = f"{path}?{urlencode(query)}" if query else path
        data = None if body is None else json.dumps(body).encode()
        answer = await self._registry.ask(HttpRequest(method, target, data))
        told = {name: value for name, value in facts.items() if value is not None}
        told["request"] = f"{method} {path}"
        try:
            return read(_said(answer, told))
        except OddAnswer as error:
            raise RegistryError(
                f"the schema registry's answer is not of its API: {error.expected} was expected",
                status=answer.status,
                code=answer.status,
                found=_shown(error.found),
                **told,
            ) from None


def _named(
    settings: Settings | Mapping[str, object] | str | None, options: Mapping[str, object]
) -> dict[str, object]:
    """Return all settings and options by the settings' names, except those without effect."""
    if isinstance(settings, Settings):
        if options:
            raise TypeError("settings that are resolved take no options beside them")
        return {row.name: settings[row] for row in rows.REGISTRY_ROWS if settings.is_given(row)}
    given = {rows.registry_url.name: settings} if isinstance(settings, str) else settings
    _check_mapping(given)
    named = {**(given or {}), **{name.replace("_", "."): value for name, value in options.items()}}
    for name in named.keys() & rows.WITHOUT_MEANING.keys():
        del named[name]
        LOG.warning("schema registry: %s has no effect: %s", name, rows.WITHOUT_MEANING[name])
    return named


def _check_mapping(given: object) -> None:
    """Raise ConfigError for anything but a mapping. Show its type only: it may be a password."""
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(
            'a registry is given as its address, "http://localhost:8081", or as a mapping of '
            "settings by Confluent's names",
            setting=rows.registry_url.name,
            given=type(given).__name__,
        )
    for name in given or ():
        if not isinstance(name, str):
            raise ConfigError("a setting's name is a str", given=type(name).__name__)


def _resolved(given: Mapping[str, object]) -> Settings:
    from moldau.client.base.given import resolve

    try:
        return resolve(rows.REGISTRY_SETTINGS, given, {})
    except BadSettings as error:
        raise BadSettings(map(_with_known_names, error.problems)) from None


def _with_known_names(problem: Problem) -> Problem:
    """Add the names of all settings to a problem whose name is similar to none of them."""
    if problem.nearest or rows.REGISTRY_SETTINGS.find(problem.name):
        return problem
    return replace(problem, allowed=", ".join(row.name for row in rows.REGISTRY_ROWS))


def _clock(runtime: Runtime | None) -> Clock:
    """Return the one clock for all loops and threads."""
    if runtime is not None:
        return runtime.clock
    from moldau.runtime.real import RealClock

    return RealClock()


def _registry(settings: Settings, tls: ssl.SSLContext | None, runtime: Runtime | None) -> Registry:
    basic, bearer = settings[rows.basic_auth_user_info], settings[rows.bearer_auth_token]
    user_info = None if basic is None else basic.reveal()
    token = None if bearer is None else bearer.reveal()
    addresses = [parse_url(each) for each in settings[rows.registry_url]]
    if tls is None and any(each.is_tls for each in addresses):
        from moldau.client.serdes.registry.tls import tls_context

        tls = tls_context(settings)
    longest_ms = settings[rows.retries_wait_max_ms]
    policy = RetryPolicy(
        HttpTimeouts(
            settings[rows.connect_timeout_ms] / 1000, settings[rows.read_timeout_ms] / 1000
        ),
        settings[rows.retries_max],
        Backoff(min(settings[rows.retries_wait_ms], longest_ms), longest_ms),
    )
    return Registry(
        [(each, authorization(user_info or each.user_info, token)) for each in addresses],
        policy,
        tls,
        runtime,
    )


def _said(answer: HttpAnswer, facts: Mapping[str, Any]) -> object:
    """Return the JSON of an answer, None if empty. Raise RegistryError if the request failed."""
    is_json, body = True, None
    try:
        body = json.loads(answer.body) if answer.body else None
    except (ValueError, RecursionError):
        is_json = False
    if answer.status in _OK and is_json:
        return body
    raise _refusal(answer, body, facts)


def _refusal(answer: HttpAnswer, body: object, facts: Mapping[str, Any]) -> RegistryError:
    from moldau.client.serdes.registry.shell import RETRIABLE

    reason, code, said = f"the schema registry answered {answer.status}", answer.status, ""
    if isinstance(body, Mapping):
        finer = body.get("error_code")
        code = finer if type(finer) is int and finer else code
        said = str(body.get("message") or body.get("title") or "")
    reason = _REFUSED.get(answer.status, reason)
    if answer.status in _OK:
        reason = "the schema registry's answer is no JSON"
    elif answer.status in REDIRECTS:
        reason, said = _redirects(answer), ""
        facts = {**facts, "location": _shown(answer.location), "setting": rows.registry_url.name}
    return RegistryError(
        f"{reason}: {said}" if said else reason,
        status=answer.status,
        code=code,
        retriable=answer.status in RETRIABLE,
        **facts,
    )


def _redirects(answer: HttpAnswer) -> str:
    where = "nowhere" if answer.location is None else f"to {_shown(answer.location)}"
    return (
        f"the schema registry answered {answer.status} and sends on {where}, which is not followed "
        "(but for what only reads, on the same host): see schema.registry.url"
    )


def _shown(found: object) -> str:
    return str(found)[:_SHOWN_CHARS_MAX]


def _id_of(body: object) -> int:
    return want(body, "id", int)


def _mode_of(body: object) -> str:
    return want(body, "mode", str)


def _ignore(_: object) -> None:
    """Ignore the body of an answer that only confirms the request."""


def _below(subject: str | None) -> str:
    return "" if subject is None else f"/{quote(subject, safe='')}"


def _set(**query: str | bool | None) -> dict[str, str]:
    """Return the query parameters that are not None, with booleans as the registry writes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
        if value is not None
    }
