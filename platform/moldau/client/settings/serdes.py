"""The settings of serdes and of the Schema Registry, by Kafka's and Confluent's names.

They are part of the producer's and the consumer's tables, so that a .properties file that a Java
client has works as it is; `REGISTRY_SETTINGS` is the table of a registry client by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.config import (
    BOOLEAN,
    CLASS,
    HTTP_URL,
    INT,
    LIST,
    LONG,
    PASSWORD,
    STRING,
    Setting,
    Settings,
    SettingTable,
    at_least,
    list_of,
    one_of,
    one_of_ignoring_case,
    rows_in,
)

_FORMATS: Final = (
    "string, bytes, json, int, long, short, float, double, boolean, uuid, avro, protobuf, "
    "json-schema, the name of a plugin, or the name of Java's class"
)


def _format(name: str, what: str) -> Setting[str | None]:
    return Setting(name, CLASS, None, f"What {what}: {_FORMATS}. Without it, bytes.")


def _subject_strategy(side: str) -> Setting[str]:
    doc = (
        f"Under which subject the schemas of {side}s are: topic (`<topic>-{side}`), record (the "
        "schema's name), topic-record (`<topic>-<name>`), or the name of Java's class."
    )
    return Setting(f"{side}.subject.name.strategy", CLASS, "topic", doc)


def _encoding(name: str, what: str) -> Setting[str | None]:
    both = name.partition(".")[2]
    doc = f"How the string {what}; as {both} says, if it is not given."
    return Setting(name, STRING, None, doc)


# fmt: off
registry_url = Setting("schema.registry.url", LIST, (), check=list_of(item=HTTP_URL),
    doc="Where the Schema Registry is: http:// or https:// addresses, several separated by commas; "
    "the next one is tried when one fails.")
basic_auth_source = Setting(
    "basic.auth.credentials.source", STRING, "URL", check=one_of("URL", "USER_INFO"),
    doc="Where the registry's name and password are: URL (https://name:password@host) or USER_INFO "
    "(basic.auth.user.info).")
basic_auth_user_info = Setting(
    "basic.auth.user.info", PASSWORD, None, aliases=("schema.registry.basic.auth.user.info",),
    doc="The registry's name:password, for basic.auth.credentials.source=USER_INFO.")
bearer_auth_source = Setting(
    "bearer.auth.credentials.source", STRING, None, check=one_of("STATIC_TOKEN"),
    doc="Where the registry's bearer token is: STATIC_TOKEN (bearer.auth.token).")
bearer_auth_token = Setting("bearer.auth.token", PASSWORD, None,
    doc="The registry's bearer token, for bearer.auth.credentials.source=STATIC_TOKEN.")
tls_truststore = Setting("schema.registry.ssl.truststore.location", STRING, None,
    doc="A PEM file of the authorities that may vouch for the registry; the system's if not told.")
tls_truststore_type = Setting(
    "schema.registry.ssl.truststore.type", STRING, "PEM", check=one_of("PEM"),
    doc="The format of the truststore; Java's JKS and PKCS12 are turned to PEM with `keytool` and "
    "`openssl`.")
tls_keystore = Setting("schema.registry.ssl.keystore.location", STRING, None,
    doc="A PEM file of this client's certificate and private key, for a registry that asks for "
    "one.")
tls_keystore_type = Setting("schema.registry.ssl.keystore.type", STRING, "PEM", check=one_of("PEM"),
    doc="The format of the keystore.")
tls_key_password = Setting("schema.registry.ssl.key.password", PASSWORD, None,
    doc="Opens the private key of the keystore.")
tls_identification = Setting(
    "schema.registry.ssl.endpoint.identification.algorithm", STRING, "https",
    check=one_of_ignoring_case("https", ""),
    doc="https checks that the registry's certificate is for its host; empty does not.")
connect_timeout_ms = Setting("http.connect.timeout.ms", INT, 60_000, check=at_least(1),
    doc="How long a connection to the registry may take.")
read_timeout_ms = Setting("http.read.timeout.ms", INT, 60_000, check=at_least(1),
    doc="How long the registry may take to answer.")
retries_max = Setting("max.retries", INT, 3, check=at_least(0),
    doc="How often a request that the registry could not answer is tried again, each time at all "
    "of its addresses.")
retries_wait_ms = Setting("retries.wait.ms", INT, 1_000, check=at_least(0),
    doc="How long to wait before the first such retry; each further one waits twice as long.")
retries_wait_max_ms = Setting("retries.max.wait.ms", INT, 20_000, check=at_least(0),
    doc="The longest wait between retries.")
cache_size = Setting("max.schemas.per.subject", INT, 1_000, check=at_least(1),
    doc="How many schemas, and how many answers about subjects, are remembered.")
latest_cache_ttl_s = Setting("latest.cache.ttl.sec", LONG, -1, check=at_least(-1),
    doc="How many seconds the latest version of a subject is remembered; -1 for as long as it is "
    "used.")
REGISTRY_ROWS: Final = rows_in(globals())

auto_register = Setting("auto.register.schemas", BOOLEAN, True,
    doc="Whether a schema that the registry does not have is registered when it is first used.")
normalize_schemas = Setting("normalize.schemas", BOOLEAN, False,
    doc="Whether the registry compares schemas without regard to how they are written.")
use_latest_version = Setting("use.latest.version", BOOLEAN, False,
    doc="Whether values are written with the latest schema of the subject instead of their own. "
    "With Java's serializers it counts only with auto.register.schemas=false.")
use_schema_id = Setting("use.schema.id", INT, -1, check=at_least(-1),
    doc="The id of the schema to write with; -1 to find it by subject. Comes before all other "
    "ways.")
key_subject_strategy = _subject_strategy("key")
value_subject_strategy = _subject_strategy("value")
fails_invalid = Setting("json.fail.invalid.schema", BOOLEAN, True,
    doc="Whether values are held against their JSON Schema when they are written and read.")
data_contract_rules = Setting(
    "data.contract.rules", STRING, "refuse", check=one_of("refuse", "ignore"),
    doc="What happens with a schema that has rules (a data contract) for what is written or read, "
    "such as conditions or encryption: they are not run here, so the schema is refused, unless "
    "this says `ignore`.")
SERDE_ROWS: Final = rows_in(globals())

key_serializer = _format("key.serializer", "makes bytes of keys")
value_serializer = _format("value.serializer", "makes bytes of values")
key_deserializer = _format("key.deserializer", "is made of keys")
value_deserializer = _format("value.deserializer", "is made of values")
serializer_encoding = Setting("serializer.encoding", STRING, "UTF-8",
    doc="How the string serializer writes text.")
deserializer_encoding = Setting("deserializer.encoding", STRING, "UTF-8",
    doc="How the string deserializer reads text.")
# fmt: on
key_serializer_encoding = _encoding("key.serializer.encoding", "serializer writes keys")
value_serializer_encoding = _encoding("value.serializer.encoding", "serializer writes values")
key_deserializer_encoding = _encoding("key.deserializer.encoding", "deserializer reads keys")
value_deserializer_encoding = _encoding("value.deserializer.encoding", "deserializer reads values")
DESERIALIZER_ROWS: Final = tuple(row for row in rows_in(globals()) if "deserializer" in row.name)
SERIALIZER_ROWS: Final = tuple(
    row for row in rows_in(globals()) if row not in (*SERDE_ROWS, *DESERIALIZER_ROWS)
)


def encoding_of(settings: Settings, *, is_key: bool, is_serializer: bool) -> tuple[str, str]:
    """The encoding of text, and the setting that says so: the side's own, else that of both."""
    if is_serializer:
        own = key_serializer_encoding if is_key else value_serializer_encoding
    else:
        own = key_deserializer_encoding if is_key else value_deserializer_encoding
    encoding = settings[own]
    if encoding is not None:
        return encoding, own.name
    both = serializer_encoding if is_serializer else deserializer_encoding
    return settings[both], both.name


_TYPED: Final = "give the deserializer a type in code, or take plain values"
WITHOUT_MEANING: Final[Mapping[str, str]] = {
    "specific.avro.reader": _TYPED,
    "specific.protobuf.key.type": _TYPED,
    "specific.protobuf.value.type": _TYPED,
    "derive.type": "messages are always made of the registry's schema",
    "json.key.type": _TYPED,
    "json.value.type": _TYPED,
    "avro.use.logical.type.converters": "dates, decimals and UUIDs are always read as Python's",
    "latest.compatibility.strict": (
        "with use.latest.version a value is written with the latest schema, or refused"
    ),
}
"""Settings of Java's serializers that its files often have, and that change nothing here."""


def credentials_are_whole(settings: Settings) -> str | None:
    """A source of credentials needs the credentials."""
    given = settings[basic_auth_user_info]
    if settings[basic_auth_source] == "USER_INFO" and given is None:
        return "basic.auth.credentials.source=USER_INFO needs basic.auth.user.info"
    if settings[basic_auth_source] == "URL" and given is not None:
        return "basic.auth.user.info needs basic.auth.credentials.source=USER_INFO"
    if given is not None and ":" not in given.reveal():
        return "basic.auth.user.info is name:password"
    if (settings[bearer_auth_source] is None) != (settings[bearer_auth_token] is None):
        return "bearer.auth.credentials.source and bearer.auth.token need each other"
    if given is not None and settings[bearer_auth_token] is not None:
        return "the registry takes a name and password or a bearer token, not both"
    return None


REGISTRY_SETTINGS: Final = SettingTable(SERDE_ROWS, rules=(credentials_are_whole,))
