"""The one door to a bucket: obstore, the extra `tiered`.

obstore runs requests on threads of its own and returns asyncio futures, so nothing here blocks the
event loop. It makes each request once (`max_retries` 0), because deadlines, waits and randomness
are the runtime's (`object_store`). Only the parts of a large upload are repeated inside the
library: it has no call for a single part.

An S3 server can check a hash of each body that the signature has. Over TLS it is left out, as
Amazon's own clients do: it takes more time than all else that is done with a segment.

A folder (`file:`) is a bucket too. The library does not make files durable, so that is done here,
through the runtime's files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from moldau.objects.object_store import StoredObject
from moldau.objects.store_address import StoreConfig, StoreKind
from moldau.objects.store_errors import (
    StoreError,
    StoreReason,
    detail_of,
    reason_of,
    store_error,
)
from moldau.plugins.extras import need
from moldau.runtime.children import process_environment
from moldau.runtime.files import parent_path

if TYPE_CHECKING:
    from moldau.records import Buffer
    from moldau.runtime import Runtime

T = TypeVar("T")

EXTRA: Final = "tiered"
PART_BYTES: Final = 2 * ((4 << 20) + 9)
"""Of an upload: two stored chunks of a remote segment, exactly. A chunk of which a part has only
some bytes stays in memory as a whole."""
PARTS_IN_FLIGHT: Final = 1
"""An upload has this many parts in memory, beside the bytes that wait for their turn."""
_PART_RETRIES: Final = 4
_ENDPOINT_VARIABLES: Final = "AWS_ENDPOINT"
_LIST_COUNT: Final = 1000


def _is_by_tls(endpoint: str | None) -> bool:
    """Whether requests to an S3 server are sent by TLS. The library finds servers by variables of
    the environment too; without any, it is Amazon's."""
    found = [endpoint] if endpoint is not None else _named_endpoints()
    return all(each.lower().startswith("https:") for each in found)


def _named_endpoints() -> list[str]:
    variables = process_environment().items()
    return [value for name, value in variables if name.upper().startswith(_ENDPOINT_VARIABLES)]


class ObstoreBucket:
    """A bucket through obstore. Satisfies `object_store.Bucket`."""

    def __init__(self, runtime: Runtime, config: StoreConfig) -> None:
        """Raise ConfigError if the extra is missing, StoreError if the address cannot work."""
        self._runtime = runtime
        self._library = need("obstore", EXTRA)
        self._config = config
        self._address = config.address
        self._root = config.address.bucket if config.address.kind is StoreKind.FILE else None
        try:
            self._store = self._open(config, 0)
            self._upload_store = self._open(config, _PART_RETRIES)
        except (self._library.exceptions.BaseError, ValueError) as error:
            raise self._translated("open", "", error) from error

    @property
    def where(self) -> str:
        return str(self._address)

    def _open(self, config: StoreConfig, retries: int) -> Any:
        stores = need("obstore.store", EXTRA)
        address = config.address
        if address.kind is StoreKind.FILE:
            return stores.LocalStore(address.bucket)
        given: dict[str, Any] = {
            "prefix": address.prefix or None,
            # The attempt's deadline is that of `object_store`.
            "client_options": {"timeout": timedelta(days=1)},
            "retry_config": {"max_retries": retries, "retry_timeout": timedelta(minutes=2)},
        }
        # A server of one's own is often without TLS; the address says which one it is.
        given["client_options"]["allow_http"] = True
        if address.kind is StoreKind.GOOGLE:
            if config.endpoint is not None:
                given["base_url"] = config.endpoint
            return stores.GCSStore(address.bucket, **given)
        if config.endpoint is not None:
            given["endpoint"] = config.endpoint
        if address.kind is StoreKind.AZURE:
            return stores.AzureStore(address.bucket, **given)
        if config.region is not None:
            given["region"] = config.region
        if config.path_style is not None:
            given["virtual_hosted_style_request"] = not config.path_style
        given["unsigned_payload"] = _is_by_tls(config.endpoint)
        return stores.S3Store(address.bucket, **given)

    async def put(self, name: str, data: Buffer) -> None:
        """Create an object. Raise ALREADY_EXISTS if the name is taken."""
        await self._call(
            "put",
            name,
            self._library.put_async(self._store, name, data, mode="create", use_multipart=False),
        )
        await self._make_durable(name)

    async def put_parts(self, name: str, parts: AsyncIterator[Buffer]) -> None:
        """Write an object piece by piece. It appears as a whole, or not at all."""
        await self._call(
            "put",
            name,
            self._library.put_async(
                self._upload_store,
                name,
                parts,
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_IN_FLIGHT,
            ),
        )
        await self._make_durable(name)

    async def get_range(self, name: str, start: int, size: int) -> Buffer:
        """Return `size` bytes from `start`; fewer if the object ends before."""
        found = await self._call(
            "get",
            name,
            self._library.get_range_async(self._store, name, start=start, length=size),
        )
        return memoryview(found)

    async def size_of(self, name: str) -> int:
        """Return the object's size."""
        try:
            found = await self._call("head", name, self._library.head_async(self._store, name))
        except StoreError as error:
            if not error.retriable and error.why is not StoreReason.NOT_FOUND:
                # An answer to HEAD has no text that says why. That to GET has.
                await self.get_range(name, 0, 1)
            raise
        size: int = found["size"]
        return size

    async def copy(self, path: str, name: str) -> None:
        """Copy an object of the bucket inside the store; `path` is from the root of the bucket.
        Raise REFUSED for a folder: the library would only link the file."""
        if self._root is not None:
            raise store_error(StoreReason.REFUSED, "copy", f"{self.where}/{name}")
        whole = self._open(replace(self._config, address=replace(self._address, prefix="")), 0)
        to = f"{self._address.prefix}/{name}".lstrip("/")
        await self._call("copy", name, self._library.copy_async(whole, path, to))

    async def delete(self, name: str) -> None:
        """Remove an object. Raise NOT_FOUND if the store says that there is none."""
        await self._call("delete", name, self._library.delete_async(self._store, name))

    async def list(self, prefix: str, after: str | None) -> Sequence[StoredObject]:
        """Return the next objects below `prefix`, in the order of their names; an empty list at the
        end. A server may not know how to begin behind `after`, as emulators do not. A folder comes
        as one page: the library has its files in no order."""
        stream = self._library.list(
            self._store, prefix or None, offset=after, chunk_size=_LIST_COUNT
        )
        found: list[StoredObject] = []
        while self._root is not None or not found:
            try:
                page = await self._call("list", prefix, stream.__anext__())
            except StopAsyncIteration:
                break
            for each in page:
                if after is None or each["path"] > after:
                    modified_ms = int(each["last_modified"].timestamp() * 1000)
                    found.append(StoredObject(each["path"], each["size"], modified_ms))
        return sorted(found)

    async def _call(self, call: str, name: str, request: Coroutine[Any, Any, T]) -> T:
        try:
            return await request
        except (self._library.exceptions.BaseError, OSError, ValueError) as error:
            raise self._translated(call, name, error) from error

    def _translated(self, call: str, name: str, error: Exception) -> Exception:
        text = str(error)
        reason = reason_of(text)
        if isinstance(error, FileNotFoundError) and reason is StoreReason.UNREACHABLE:
            reason = StoreReason.NOT_FOUND
        elif isinstance(error, self._library.exceptions.AlreadyExistsError):
            reason = StoreReason.ALREADY_EXISTS
        if call == "put" and reason is StoreReason.NOT_FOUND:
            reason = StoreReason.NO_BUCKET
        where = f"{self.where}/{name}" if name else self.where
        return store_error(reason, call, where, detail_of(text))

    async def _make_durable(self, name: str) -> None:
        if self._root is not None:
            await self._runtime.run_blocking(self._sync, f"{self._root}/{name}", self._root)

    def _sync(self, path: str, root: str) -> None:
        """Make a file and the names that lead to it durable."""
        files = self._runtime.files
        with files.open(path, "update") as file:
            file.sync()
        while len(path) > len(root):
            path = parent_path(path)
            files.sync_dir(path)
