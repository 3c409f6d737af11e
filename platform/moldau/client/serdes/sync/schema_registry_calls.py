"""`SchemaRegistry`'s calls that wait, made from the asyncio client (tests/client/sync).

`python -m tests.client.sync.twins` makes this module anew.
"""

from __future__ import annotations

from moldau.client.base.blocking import BlockingClient
from moldau.client.serdes.registry.client import SchemaRegistry as AsyncSchemaRegistry
from moldau.client.serdes.registry.naming import SchemaOptions
from moldau.client.serdes.registry.schemas import LATEST, Compatibility, Config, RegisteredSchema
from moldau.values.schema import Schema


class SchemaRegistryCalls(BlockingClient, twin_of=AsyncSchemaRegistry):
    """Each hands its call to the loop and waits for the answer. Their texts are those of the
    asyncio client."""

    _client: AsyncSchemaRegistry

    def schema(self, schema_id: int, *, format: str | None = None) -> Schema:
        return self._call(self._client.schema(schema_id, format=format))

    def schema_by_guid(self, guid: str, *, format: str | None = None) -> Schema:
        return self._call(self._client.schema_by_guid(guid, format=format))

    def schema_to_read(
        self, options: SchemaOptions, key: int | str, *, format: str | None = None
    ) -> Schema:
        return self._call(self._client.schema_to_read(options, key, format=format))

    def schema_to_write(
        self, options: SchemaOptions, subject: str, own: Schema | None
    ) -> tuple[int, Schema]:
        return self._call(self._client.schema_to_write(options, subject, own))

    def references(self, schema: Schema, *, format: str | None = None) -> dict[str, Schema]:
        return self._call(self._client.references(schema, format=format))

    def known_schema(self, schema_id: int | str, *, format: str | None = None) -> Schema | None:
        return self._run(lambda: self._client.known_schema(schema_id, format=format))

    def schema_subjects(self, schema_id: int) -> list[str]:
        return self._call(self._client.schema_subjects(schema_id))

    def schema_versions(self, schema_id: int) -> list[tuple[str, int]]:
        return self._call(self._client.schema_versions(schema_id))

    def schema_types(self) -> list[str]:
        return self._call(self._client.schema_types())

    def subjects(self, *, prefix: str | None = None, deleted: bool = False) -> list[str]:
        return self._call(self._client.subjects(prefix=prefix, deleted=deleted))

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        return self._call(self._client.register(subject, schema, normalize=normalize))

    def lookup(
        self, subject: str, schema: Schema, *, normalize: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        return self._call(
            self._client.lookup(subject, schema, normalize=normalize, deleted=deleted)
        )

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        return self._call(self._client.versions(subject, deleted=deleted))

    def version(self, subject: str, version: int, *, deleted: bool = False) -> RegisteredSchema:
        return self._call(self._client.version(subject, version, deleted=deleted))

    def latest(self, subject: str) -> RegisteredSchema:
        return self._call(self._client.latest(subject))

    def known_latest(self, subject: str) -> RegisteredSchema | None:
        return self._run(lambda: self._client.known_latest(subject))

    def referenced_by(self, subject: str, version: int) -> list[int]:
        return self._call(self._client.referenced_by(subject, version))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        return self._call(self._client.delete_subject(subject, permanent=permanent))

    def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        return self._call(self._client.delete_version(subject, version, permanent=permanent))

    def is_compatible(
        self,
        subject: str,
        schema: Schema,
        version: int | str | None = LATEST,
        *,
        normalize: bool = False,
    ) -> Compatibility:
        return self._call(self._client.is_compatible(subject, schema, version, normalize=normalize))

    def config(self, subject: str | None = None, *, effective: bool = False) -> Config:
        return self._call(self._client.config(subject, effective=effective))

    def set_config(self, config: Config, subject: str | None = None) -> Config:
        return self._call(self._client.set_config(config, subject))

    def delete_config(self, subject: str | None = None) -> None:
        self._call(self._client.delete_config(subject))

    def mode(self, subject: str | None = None, *, effective: bool = False) -> str:
        return self._call(self._client.mode(subject, effective=effective))

    def set_mode(self, mode: str, subject: str | None = None, *, force: bool = False) -> str:
        return self._call(self._client.set_mode(mode, subject, force=force))

    def delete_mode(self, subject: str) -> None:
        self._call(self._client.delete_mode(subject))

    def contexts(self) -> list[str]:
        return self._call(self._client.contexts())

    def forget(self) -> None:
        self._run(lambda: self._client.forget())
