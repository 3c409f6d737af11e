"""Documents of `moldau apply`: their sections, what they ask for, and the YAML of an export.

Every scalar of a document is the text of the file; the types of the sections, which are pydantic
models, parse it. An export has numbers and booleans without quotes for that reason.

Invariants: a thing stands in one place only, also over several files; no problem quotes a value
that may be a password.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from moldau.client.admin.quotas import QuotaEntity
from moldau.client.admin.security import Acl
from moldau.config.file_problems import Problem, nearest
from moldau.config.yaml_tree import Node, parse
from moldau.deferred import dataclass, deferred_pattern
from moldau.errors import BadGiven
from moldau.operations.acls import operation_of, principal_of, resource_of, rule_name
from moldau.operations.quotas import entity_of, quota_name
from moldau.operations.topics import TopicSpec
from moldau.operations.users import PasswordPlace, UserSpec
from moldau.protocol.acl_operations import AclPattern, AclPermission
from moldau.protocol.scram import ITERATIONS_MAX, ITERATIONS_MIN
from moldau.values.schema import AVRO, JSON, PROTOBUF, Reference, Schema

Json = dict[str, Any]
ReadText = Callable[[str], str]

SECTIONS: Final = ("topics", "users", "acls", "quotas", "schemas", "connectors")
_OTHERWISE: Final = "a document is a YAML mapping of sections: write it as docs/apply.md shows"
_TYPES: Final = {"avro": AVRO, "json": JSON, "protobuf": PROTOBUF}
_ENDINGS: Final = {".avsc": AVRO, ".avro": AVRO, ".proto": PROTOBUF, ".json": JSON}
_NULL_MEANS_DEFAULTS: Final = ("topics", "users")
_PLAIN: Final = deferred_pattern(r"-?(0|[1-9]\d{0,17})|true|false")
_WIDTH: Final = 100


# Sections


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
        try:
            self.entity()
        except BadGiven as error:
            raise ValueError(str(error)) from None
        if not self.values():
            raise ValueError("write a quota, such as producer_byte_rate: 1000000")
        return self

    def entity(self) -> QuotaEntity:
        """Return what the quotas are for. Raise BadGiven."""
        return entity_of(self.user, self.client_id, self.ip, self.values())

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


_MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "topics": TopicSection,
    "users": UserSection,
    "acls": RuleSection,
    "quotas": QuotaSection,
    "schemas": SchemaSection,
}


# Documents


@dataclass(slots=True)
class Documents:
    """What all documents want, by the names of the things."""

    named: set[str] = field(default_factory=set)
    """The sections that a document has, also empty ones."""
    topics: dict[str, TopicSpec] = field(default_factory=dict)
    users: dict[str, UserSpec] = field(default_factory=dict)
    acls: dict[str, Acl] = field(default_factory=dict)
    quotas: dict[str, tuple[QuotaEntity, dict[str, float]]] = field(default_factory=dict)
    schemas: dict[str, tuple[Schema, str | None]] = field(default_factory=dict)
    """Each subject's schema and compatibility."""
    connectors: dict[str, dict[str, str]] = field(default_factory=dict)
    places: dict[tuple[str, str], str] = field(default_factory=dict)
    """The place, as FILE:LINE, of each section and name."""


class Reader:
    """Adds documents to `documents`, and their mistakes to `problems`, as lines for the user."""

    def __init__(self, read_text: ReadText) -> None:
        self.documents = Documents()
        self.problems: list[str] = []
        self._read_text = read_text

    def add(self, path: str, file: str) -> None:
        """Read the document at this absolute path; problems name it as `file`."""
        root, problems = parse(self._read_text(path), file, _OTHERWISE)
        plain = _normalized(root.plain())
        try:
            found = DocumentSection.model_validate(plain)
        except ValidationError as error:
            problems += [_problem(root, dict(each)) for each in error.errors(include_url=False)]
        else:
            problems += _Merge(self.documents, root, path, file, self._read_text).add(found)
        self.problems += [each.format(file) for each in sorted(problems)]


class _Merge:
    """Adds the sections of one document to those of the others."""

    def __init__(
        self, documents: Documents, root: Node, path: str, file: str, read_text: ReadText
    ) -> None:
        self._documents = documents
        self._root = root
        self._base = posixpath.dirname(path)
        self._file = file
        self._read_text = read_text
        self._problems: list[Problem] = []

    def add(self, found: DocumentSection) -> list[Problem]:
        """Add all sections. Return the problems."""
        documents = self._documents
        documents.named |= found.model_fields_set
        for name, topic in found.topics.items():
            if self._is_new(("topics", name), name):
                documents.topics[name] = TopicSpec(**dict(topic))
        for name, user in found.users.items():
            if self._is_new(("users", name), name):
                documents.users[name] = self._user(user)
        for user_name, rules in found.acls.items():
            for index, rule in enumerate(rules):
                self._add_rules(user_name, index, rule)
        for index, quota in enumerate(found.quotas):
            entity = quota.entity()
            name = quota_name(entity)
            if self._is_new(("quotas", index), name):
                documents.quotas[name] = (entity, quota.values())
        for name, schema in found.schemas.items():
            if self._is_new(("schemas", name), name):
                self._add_schema(name, schema)
        for name, config in found.connectors.items():
            if self._is_new(("connectors", name), name):
                self._add_connector(name, config)
        return self._problems

    def _is_new(self, at: tuple[Any, ...], name: str) -> bool:
        """Keep the place of a thing. Return False, with a problem, if it has a place already."""
        key, line = (at[0], name), self._root.line_at(at)
        first = self._documents.places.get(key)
        if first is not None:
            text = f"{at[0]}: {name} is in {first} already: remove one of the two"
            self._problems.append(Problem(line, text))
            return False
        self._documents.places[key] = f"{self._file}:{line}"
        return True

    def _user(self, user: UserSection) -> UserSpec:
        counts = {str(name): count for name, count in user.mechanisms.items()}
        place = user.password
        if place is None:
            return UserSpec(counts)
        file = None if place.file is None else posixpath.join(self._base, place.file)
        return UserSpec(counts, PasswordPlace(place.env, file))

    def _add_rules(self, user: str, index: int, rule: RuleSection) -> None:
        at = ("acls", user, index)
        permission = AclPermission.ALLOW if rule.allow else AclPermission.DENY
        try:
            kind, name, pattern = resource_of(rule.resource)
            if rule.pattern == "literal":
                pattern, name = AclPattern.LITERAL, rule.resource.partition(":")[2]
            elif rule.pattern == "prefixed":
                pattern, name = AclPattern.PREFIXED, rule.resource.partition(":")[2]
            operations = [operation_of(each) for each in rule.allow or rule.deny]
        except BadGiven as error:
            where = f"acls.{user}[{index}]"
            self._problems.append(Problem(self._root.line_at(at), f"{where}: {error}"))
            return
        principal = principal_of(user)
        for operation in operations:
            made = Acl(principal, operation, name, kind, pattern, permission, rule.host)
            if self._is_new(at, rule_name(made)):
                self._documents.acls[rule_name(made)] = made

    def _add_schema(self, subject: str, section: SchemaSection) -> None:
        try:
            schema = self._schema(section)
        except BadGiven as error:
            line = self._root.line_at(("schemas", subject))
            self._problems.append(Problem(line, f"schemas.{subject}: {error}"))
            return
        self._documents.schemas[subject] = (schema, section.compatibility)

    def _schema(self, section: SchemaSection) -> Schema:
        text, file = section.text, section.file
        if file is not None:
            try:
                text = self._read_text(posixpath.join(self._base, file))
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
                raise BadGiven(f"the file {file} cannot be read: {reason}") from None
        kind = None if section.type is None else _TYPES[section.type]
        if kind is None and file is not None:
            kind = _ENDINGS.get(posixpath.splitext(file)[1])
        if kind is None:
            raise BadGiven(f"say what the schema is: type: {', '.join(_TYPES)}")
        assert text is not None, "the section has a text or a file"
        return Schema(text, kind, tuple(map(_reference, section.references)))

    def _add_connector(self, name: str, config: dict[str, str]) -> None:
        line = self._root.line_at(("connectors", name))
        if "connector.class" not in config:
            text = f"connectors.{name} has no connector.class: add it"
            self._problems.append(Problem(line, text))
        elif config.get("name", name) != name:
            text = f"connectors.{name}.name is another name: remove it"
            self._problems.append(Problem(line, text))
        else:
            self._documents.connectors[name] = {**config, "name": name}


def _reference(section: ReferenceSection) -> Reference:
    return Reference(section.name, section.subject, section.version)


def _normalized(plain: Json) -> Json:
    """Return the document with an empty mapping or list in the place of each empty section, topic
    and user."""
    for name in list(plain):
        if plain[name] is None and name in DocumentSection.model_fields:
            plain[name] = [] if name == "quotas" else {}
    for name in _NULL_MEANS_DEFAULTS:
        entries = plain.get(name)
        if isinstance(entries, dict):
            plain[name] = {key: {} if each is None else each for key, each in entries.items()}
    return plain


def _problem(root: Node, error: Mapping[str, Any]) -> Problem:
    """Return the problem of an error of pydantic, at its line."""
    location = tuple(each for each in error["loc"] if each != "[key]")
    return Problem(root.line_at(location), _message(location, error))


def _message(location: tuple[Any, ...], error: Mapping[str, Any]) -> str:
    where = _where(location)
    kind = error["type"]
    if kind == "extra_forbidden":
        return _unknown_key(location)
    if location[-1:] == ("password",) and kind in ("model_type", "model_attributes_type"):
        return (
            f"{where} is the place of a password, which is never in the document: write "
            "password: {env: NAME} or password: {file: PATH}"
        )
    if kind == "missing":
        return f"{where} is missing: add it"
    if kind == "string_type":
        return f"{where} must be a text"
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return f"{where} must be a mapping of names to values"
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{where}: {message[:1].lower()}{message[1:]}"


def _unknown_key(location: tuple[Any, ...]) -> str:
    """Return the text about a key that its mapping does not have, with the nearest one."""
    key = str(location[-1])
    model = _model_at(location[:-1])
    known = [each.alias or name for name, each in model.model_fields.items()]
    parent = _where(location[:-1])
    what = f"{parent} has no key {key}" if parent else f"no section {key}"
    return f"{what}{nearest(key, known)} (known: {', '.join(known)})"


def _model_at(location: tuple[Any, ...]) -> type[BaseModel]:
    if not location:
        return DocumentSection
    if "password" in location[2:]:
        return PasswordSection
    if "references" in location[2:]:
        return ReferenceSection
    return _MODELS[str(location[0])]


def _where(location: tuple[Any, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def to_yaml(sections: Mapping[str, Any]) -> str:
    """Return the text of a document."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, indentless=False)

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
        kind = "tag:yaml.org,2002:"
        if _PLAIN.fullmatch(value):
            number = "bool" if value in ("true", "false") else "int"
            return dumper.represent_scalar(f"{kind}{number}", value)
        return dumper.represent_scalar(f"{kind}str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return "\n".join(
        yaml.dump(
            {name: section},
            Dumper=Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=_WIDTH,
            default_flow_style=False,
        )
        for name, section in sections.items()
    )
