"""`SchemaRegistry`'s calls that wait, made from the asyncio client (tests/client/sync).

`python -m tests.client.sync.twins` makes this module anew.
"""

from __future__ import annotations

from moldau.client.serdes.registry.client import SchemaRegistry as AsyncSchemaRegistry
from moldau.client.serdes.registry.schemas import (
    LATEST,
    Compatibility,
    Config,
    RegisteredSchema,
    Schema,
)
from moldau.client.sync.client import BlockingClient


class SchemaRegistryCalls(BlockingClient):
    """Each hands its call to the loop and waits for the answer."""

    _client: AsyncSchemaRegistry

    def schema(self, schema_id: int, *, format: str | None = None) -> Schema:
        """The schema of that id. `format` is for protobuf: "serialized" gives descriptors."""
        return self._call(self._client.schema(schema_id, format=format))

    def schema_by_guid(self, guid: str, *, format: str | None = None) -> Schema:
        """The schema of that GUID, which is the same in every registry that has the schema."""
        return self._call(self._client.schema_by_guid(guid, format=format))

    def known_schema(self, schema_id: int | str, *, format: str | None = None) -> Schema | None:
        """As `schema`, of what is remembered."""
        return self._run(lambda: self._client.known_schema(schema_id, format=format))

    def schema_subjects(self, schema_id: int) -> list[str]:
        """The subjects that have the schema."""
        return self._call(self._client.schema_subjects(schema_id))

    def schema_versions(self, schema_id: int) -> list[tuple[str, int]]:
        """Where the schema is: (subject, version)."""
        return self._call(self._client.schema_versions(schema_id))

    def schema_types(self) -> list[str]:
        """The kinds of schemas that this registry takes."""
        return self._call(self._client.schema_types())

    def subjects(self, *, prefix: str | None = None, deleted: bool = False) -> list[str]:
        """The subjects; with the softly deleted ones, if wanted."""
        return self._call(self._client.subjects(prefix=prefix, deleted=deleted))

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Makes it a version of the subject, unless it is one already; gives its id."""
        return self._call(self._client.register(subject, schema, normalize=normalize))

    def lookup(
        self, subject: str, schema: Schema, *, normalize: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        """The version of the subject that this schema is; RegistryError if it is none."""
        return self._call(
            self._client.lookup(subject, schema, normalize=normalize, deleted=deleted)
        )

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """The numbers of a subject's versions."""
        return self._call(self._client.versions(subject, deleted=deleted))

    def version(self, subject: str, version: int, *, deleted: bool = False) -> RegisteredSchema:
        """One version of a subject."""
        return self._call(self._client.version(subject, version, deleted=deleted))

    def latest(self, subject: str) -> RegisteredSchema:
        """The last version of a subject, remembered for a while."""
        return self._call(self._client.latest(subject))

    def known_latest(self, subject: str) -> RegisteredSchema | None:
        """As `latest`, of what is remembered."""
        return self._run(lambda: self._client.known_latest(subject))

    def referenced_by(self, subject: str, version: int) -> list[int]:
        """The ids of schemas that refer to that version."""
        return self._call(self._client.referenced_by(subject, version))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Deletes all versions, softly; for good what was deleted softly before."""
        return self._call(self._client.delete_subject(subject, permanent=permanent))

    def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        """Deletes one version (or "latest"); gives its number."""
        return self._call(self._client.delete_version(subject, version, permanent=permanent))

    def is_compatible(
        self,
        subject: str,
        schema: Schema,
        version: int | str | None = LATEST,
        *,
        normalize: bool = False,
    ) -> Compatibility:
        """Whether the schema may follow that version, or (None) all that the subject's level
        compares it with."""
        return self._call(self._client.is_compatible(subject, schema, version, normalize=normalize))

    def config(self, subject: str | None = None, *, effective: bool = False) -> Config:
        """What is set for the subject (else for all); `effective` gives what holds for it."""
        return self._call(self._client.config(subject, effective=effective))

    def set_config(self, config: Config, subject: str | None = None) -> Config:
        """Changes what is set in `config`."""
        return self._call(self._client.set_config(config, subject))

    def delete_config(self, subject: str | None = None) -> None:
        """From now on the subject goes by what holds for all, and all by the default."""
        self._call(self._client.delete_config(subject))

    def mode(self, subject: str | None = None, *, effective: bool = False) -> str:
        """READWRITE, READONLY, READONLY_OVERRIDE or IMPORT."""
        return self._call(self._client.mode(subject, effective=effective))

    def set_mode(self, mode: str, subject: str | None = None, *, force: bool = False) -> str:
        """Changes the mode."""
        return self._call(self._client.set_mode(mode, subject, force=force))

    def delete_mode(self, subject: str) -> None:
        """From now on the subject goes by the mode of all."""
        self._call(self._client.delete_mode(subject))

    def contexts(self) -> list[str]:
        """The contexts of this registry, of which the default one is called "."."""
        return self._call(self._client.contexts())

    def forget(self) -> None:
        """Remembers nothing any more."""
        self._run(lambda: self._client.forget())
