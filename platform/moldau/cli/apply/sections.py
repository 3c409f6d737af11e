"""The sections of a document for `moldau apply`, each as a pydantic model.

Every scalar of a document is the text of the file; the types here parse it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from moldau.protocol.scram import ITERATIONS_MAX, ITERATIONS_MIN

SECTIONS: Final = ("topics", "users", "acls", "quotas", "schemas", "connectors")
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def _words(value: Any) -> Any:
    """Return a list for one word."""
    return [value] if isinstance(value, str) else value


def _joined(value: Any) -> Any:
    """Return the values of settings as texts: a list becomes `a,b`, and nothing an empty text."""
    if not isinstance(value, dict):
        return value
    return {name: _text(each) for name, each in value.items()}


def _text(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return value


def _iterations(value: Any) -> Any:
    """Return a mapping for mechanisms without iterations."""
    words = _words(value)
    return dict.fromkeys(words) if isinstance(words, list) else words


Words = Annotated[list[str], BeforeValidator(_words)]
Settings = Annotated[dict[str, str], BeforeValidator(_joined)]
Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
Compatibility = Literal[
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
]
Iterations = Annotated[int, Field(ge=ITERATIONS_MIN, le=ITERATIONS_MAX)]


class Section(BaseModel):
    """A part of a document. A key that its model does not have is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TopicSection(Section):
    """A topic. What is left out is the cluster's default for a new one, and stays for others."""

    partitions: int | None = Field(None, ge=1, le=2**31 - 1)
    replication: int | None = Field(None, ge=1, le=2**15 - 1)
    config: Settings = {}


class PasswordSection(Section):
    """The place of a password, which is not in the document."""

    env: str | None = None
    file: str | None = None

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if (self.env is None) is (self.file is None):
            raise ValueError("write one of env: NAME and file: PATH")
        return self


class UserSection(Section):
    """A SCRAM user. Iterations that are None may be any; a new user has the default."""

    password: PasswordSection | None = None
    mechanisms: Annotated[
        dict[Mechanism, Iterations | None], BeforeValidator(_iterations), Field(min_length=1)
    ] = {"SCRAM-SHA-256": None, "SCRAM-SHA-512": None}


class RuleSection(Section):
    """Access rules about one resource: operations that are allowed, or denied."""

    allow: Words = []
    deny: Words = []
    resource: str
    host: str = "*"
    pattern: Literal["literal", "prefixed"] | None = None

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if bool(self.allow) is bool(self.deny):
            raise ValueError("write one of allow: OPERATION and deny: OPERATION")
        return self


class QuotaSection(Section):
    """Quotas of a user, a client id, both together, or an address; `*` for all others."""

    user: str | None = None
    client_id: str | None = Field(None, alias="client-id")
    ip: str | None = None
    producer_byte_rate: float | None = Field(None, ge=0)
    consumer_byte_rate: float | None = Field(None, ge=0)
    request_percentage: float | None = Field(None, ge=0)
    controller_mutation_rate: float | None = Field(None, ge=0)
    connection_creation_rate: float | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if not (self.user or self.client_id or self.ip):
            raise ValueError("write user: NAME, client-id: ID or both, or ip: ADDRESS")
        if self.ip and (self.user or self.client_id):
            raise ValueError("ip: is for an address alone")
        if not self.values():
            raise ValueError("write a quota, such as producer_byte_rate: 1000000")
        return self

    def values(self) -> dict[str, float]:
        """Return the quotas that are given."""
        found = self.model_dump(exclude={"user", "client_id", "ip"}, exclude_none=True)
        return {name: float(value) for name, value in found.items()}


class ReferenceSection(Section):
    """A schema that another one refers to."""

    name: str
    subject: str
    version: int = Field(ge=1)


class SchemaSection(Section):
    """The latest schema of a subject, in a file or in the document, and its compatibility."""

    type: Literal["avro", "json", "protobuf"] | None = None
    file: str | None = None
    text: str | None = Field(None, alias="schema")
    references: list[ReferenceSection] = []
    compatibility: Compatibility | None = None

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if (self.file is None) is (self.text is None):
            raise ValueError("write one of file: PATH and schema: TEXT")
        return self


class DocumentSection(Section):
    """A whole document."""

    topics: dict[str, TopicSection] = {}
    users: dict[str, UserSection] = {}
    acls: dict[str, list[RuleSection]] = {}
    quotas: list[QuotaSection] = []
    schemas: dict[str, SchemaSection] = {}
    connectors: dict[str, Settings] = {}
