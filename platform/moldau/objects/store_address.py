"""Where objects lie: the address of a store as a user writes it, and how its server is reached.

    s3://bucket/prefix    gs://bucket/prefix    az://container/prefix    file:///path

Credentials, and what is not given here, are found as the SDK of the cloud finds them: by the names
of the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, AWS_REGION, GOOGLE_APPLICATION_CREDENTIALS,
AZURE_STORAGE_ACCOUNT_NAME ...), or from the machine's own identity.
"""

from __future__ import annotations

from enum import Enum
from typing import Final
from urllib.parse import unquote, urlsplit

from moldau.deferred import dataclass
from moldau.errors import ConfigError

_FORMS: Final = "s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///path"


class StoreKind(Enum):
    """A kind of store, by the scheme of its address."""

    S3 = "s3"
    GOOGLE = "gs"
    AZURE = "az"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """A bucket and the prefix of all names in it. Of `file:` the bucket is an absolute path."""

    kind: StoreKind
    bucket: str
    prefix: str = ""

    def __str__(self) -> str:
        tail = f"/{self.prefix}" if self.prefix else ""
        return f"{self.kind.value}://{self.bucket}{tail}"


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """How a store is reached. None means what the cloud's SDK would use."""

    address: StoreAddress
    endpoint: str | None = None
    """The URL of a server that is not the cloud's own."""
    region: str | None = None
    path_style: bool | None = None
    """Whether the bucket stands in the path of a request, and not in the server's name: most S3
    servers that are not Amazon's need it."""


def parse_address(text: str, what: str = "the address of a store") -> StoreAddress:
    """Return the address that a user wrote. Raise ConfigError if it is none; `what` names it: the
    setting or the argument that has it."""
    parts = urlsplit(text.strip())
    try:
        kind = StoreKind(parts.scheme)
    except ValueError:
        raise _refusal(text, what, f"has no known scheme: write {_FORMS}") from None
    if parts.query or parts.fragment or parts.username is not None:
        raise _refusal(text, what, "has more than a bucket and a prefix; credentials go elsewhere")
    if kind is StoreKind.FILE:
        path = unquote(parts.path).rstrip("/")
        if parts.netloc or not path:
            raise _refusal(text, what, "needs an absolute path: write file:///path")
        return StoreAddress(kind, path)
    if not parts.netloc:
        raise _refusal(text, what, f"has no bucket: write {_FORMS}")
    prefix = parts.path.strip("/")
    if any(part in ("", ".", "..") for part in prefix.split("/")) and prefix:
        raise _refusal(text, what, "has a prefix with an empty part, or with dots alone")
    return StoreAddress(kind, parts.netloc, prefix)


def _refusal(text: str, what: str, why: str) -> ConfigError:
    return ConfigError(f"{what} {why}", value=text)
