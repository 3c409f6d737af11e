"""`SchemaRegistry`'s calls that wait, made from the asyncio client (tests/client/sync).

`python -m tests.client.sync.twins` makes this module anew.
"""

from __future__ import annotations

from moldau.client.base.blocking import BlockingClient
from moldau.client.serdes.registry.client import SchemaRegistry as AsyncSchemaRegistry
from moldau.client.serdes.registry.schemas import (
    LATEST,
    Compatibility,
    Config,
    RegisteredSchema,
    Schema,
)


class SchemaRegistryCalls(BlockingClient):
    """Each hands its call to the loop and waits for the answer."""

    _client: AsyncSchemaRegistry

    def schema(self, schema_id: int, *, format: str | None = None) -> Schema:
        """Return the schema with this id. For protobuf, `format="serialized"` gives descriptors."""
        return self._call(self._client.schema(schema_id, format=format))

    def schema_by_guid(self, guid: str, *, format: str | None = None) -> Schema:
        """Return the schema with this GUID, which is the same in every registry that has it."""
        return self._call(self._client.schema_by_guid(guid, format=format))

    def known_schema(self, schema_id: int | str, *, format: str | None = None) -> Schema | None:
        """Return what `schema` returns if it is cached, else None."""
        return self._run(lambda: self._client.known_schema(schema_id, format=format))

    def schema_subjects(self, schema_id: int) -> list[str]:
        """Return the subjects that have the schema."""
        return self._call(self._client.schema_subjects(schema_id))

    def schema_versions(self, schema_id: int) -> list[tuple[str, int]]:
        """Return each (subject, version) that has the schema."""
        return self._call(self._client.schema_versions(schema_id))

    def schema_types(self) -> list[str]:
        """Return the types of schemas that this registry supports."""
        return self._call(self._client.schema_types())

    def subjects(self, *, prefix: str | None = None, deleted: bool = False) -> list[str]:
        """Return the subjects that begin with `prefix`; `deleted` adds the soft-deleted ones."""
        return self._call(self._client.subjects(prefix=prefix, deleted=deleted))

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Register the schema as a version, unless the subject has it already. Return its id."""
        return self._call(self._client.register(subject, schema, normalize=normalize))

    def lookup(
        self, subject: str, schema: Schema, *, normalize: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        """Return the subject's version with this schema. Raise RegistryError if there is none."""
        return self._call(
            self._client.lookup(subject, schema, normalize=normalize, deleted=deleted)
        )

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Return the version numbers of a subject."""
        return self._call(self._client.versions(subject, deleted=deleted))

    def version(self, subject: str, version: int, *, deleted: bool = False) -> RegisteredSchema:
        """Return one version of a subject."""
        return self._call(self._client.version(subject, version, deleted=deleted))

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest version of a subject, cached for `latest.cache.ttl.sec`."""
        return self._call(self._client.latest(subject))

    def known_latest(self, subject: str) -> RegisteredSchema | None:
        """Return what `latest` returns if it is cached and not expired, else None."""
        return self._run(lambda: self._client.known_latest(subject))

    def referenced_by(self, subject: str, version: int) -> list[int]:
        """Return the ids of the schemas that refer to this version."""
        return self._call(self._client.referenced_by(subject, version))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Soft-delete all versions; `permanent` removes soft-deleted ones. Return their numbers."""
        return self._call(self._client.delete_subject(subject, permanent=permanent))

    def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        """Soft-delete one version (or "latest"); `permanent` removes it. Return its number."""
        return self._call(self._client.delete_version(subject, version, permanent=permanent))

    def is_compatible(
        self,
        subject: str,
        schema: Schema,
        version: int | str | None = LATEST,
        *,
        normalize: bool = False,
    ) -> Compatibility:
        """Check the schema against that version, or with None against all versions that the
        subject's compatibility level requires."""
        return self._call(self._client.is_compatible(subject, schema, version, normalize=normalize))

    def config(self, subject: str | None = None, *, effective: bool = False) -> Config:
        """Return the configuration of the subject, or the global one. With `effective`, return the
        global one for a subject that has none."""
        return self._call(self._client.config(subject, effective=effective))

    def set_config(self, config: Config, subject: str | None = None) -> Config:
        """Change the fields that are set in `config`, for the subject or globally."""
        return self._call(self._client.set_config(config, subject))

    def delete_config(self, subject: str | None = None) -> None:
        """Reset the subject to the global configuration, or the global one to the default."""
        self._call(self._client.delete_config(subject))

    def mode(self, subject: str | None = None, *, effective: bool = False) -> str:
        """Return the mode, as in `config`: READWRITE, READONLY, READONLY_OVERRIDE or IMPORT."""
        return self._call(self._client.mode(subject, effective=effective))

    def set_mode(self, mode: str, subject: str | None = None, *, force: bool = False) -> str:
        """Set the mode of the subject, or the global one. Return the new mode."""
        return self._call(self._client.set_mode(mode, subject, force=force))

    def delete_mode(self, subject: str) -> None:
        """Remove the subject's mode, so that the global one applies."""
        self._call(self._client.delete_mode(subject))

    def contexts(self) -> list[str]:
        """Return the contexts of this registry. The default context is called "."."""
        return self._call(self._client.contexts())

    def forget(self) -> None:
        """Clear all caches."""
        self._run(lambda: self._client.forget())
