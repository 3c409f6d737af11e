"""What requests carry, checked: schemas, settings, modes, numbers of versions. No IO."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from moldau.client.serdes.registry.schemas import OddAnswer, want
from moldau.deferred import dataclass
from moldau.registry.refusals import (
    INVALID_SCHEMA,
    Refusal,
    bad_request,
    invalid_level,
    invalid_mode,
    invalid_rules,
    invalid_version,
)
from moldau.values.schema import AVRO, Reference, Schema

LEVELS: Final = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
LATEST: Final = "latest"

_VERSION_MAX: Final = 2**31 - 1
_NAMES: Final[Mapping[type, str]] = {bool: "true or false", str: "text", dict: "an object"}
_FIELDS: Final[Mapping[str, type]] = {
    "normalize": bool,
    "alias": str,
    "aliasForDeks": str,
    "compatibilityGroup": str,
    "compatibilityPolicy": str,
    "defaultMetadata": dict,
    "overrideMetadata": dict,
    "defaultRuleSet": dict,
    "overrideRuleSet": dict,
    "validateFields": bool,
    "validateNewSchemas": bool,
    "validateRules": bool,
}
_RULE_KINDS: Final = ("TRANSFORM", "CONDITION")
_RULE_MODES: Final = ("UPGRADE", "DOWNGRADE", "UPDOWN", "WRITE", "READ", "WRITEREAD")
_RULE_LISTS: Final = ("migrationRules", "domainRules", "encodingRules")


@dataclass(frozen=True, slots=True)
class Registration:
    """The body of a request with a schema. `id` and `version` are for imports."""

    schema: Schema
    id: int | None = None
    version: int | None = None


def object_of(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body; {} for an empty one. Raise Refusal."""
    if not body.strip():
        return {}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise bad_request("the body is no JSON object")
    return found


def registration_of(body: bytes) -> Registration:
    """Return the schema of a request. Raise Refusal."""
    found = object_of(body)
    try:
        text = want(found, "schema", str)
        schema_type = _maybe(found, "schemaType", str) or AVRO
        references = tuple(map(_reference_of, _maybe(found, "references", list) or ()))
        metadata, rules = _maybe(found, "metadata", dict), _maybe(found, "ruleSet", dict)
        schema_id, version = _maybe(found, "id", int), _maybe(found, "version", int)
    except OddAnswer as error:
        raise Refusal(INVALID_SCHEMA, f"Empty or invalid schema: {error.expected}") from None
    if not text.strip():
        raise Refusal(INVALID_SCHEMA, "Empty schema")
    if rules is not None:
        _check_rules(rules)
    return Registration(
        Schema(text, schema_type.upper(), references, metadata, rules),
        schema_id if schema_id is not None and schema_id > 0 else None,
        version if version is not None and version > 0 else None,
    )


def _reference_of(body: object) -> Reference:
    return Reference(
        want(body, "name", str), want(body, "subject", str), want(body, "version", int)
    )


def _maybe(found: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    return None if found.get(name) is None else want(found, name, kind)


def _check_rules(rules: Mapping[str, Any]) -> None:
    """Rules are only stored, clients run them; so their form is all that can be wrong here."""
    for each in _RULE_LISTS:
        seen: set[str] = set()
        for rule in rules.get(each) or ():
            if not isinstance(rule, dict) or not isinstance(rule.get("name"), str):
                raise invalid_rules("a rule needs a name")
            if rule["name"] in seen:
                raise invalid_rules(f"two rules have the name {rule['name']}")
            seen.add(rule["name"])
            if rule.get("kind", "TRANSFORM") not in _RULE_KINDS:
                raise invalid_rules(f"kind is one of {', '.join(_RULE_KINDS)}")
            if rule.get("mode", "WRITEREAD") not in _RULE_MODES:
                raise invalid_rules(f"mode is one of {', '.join(_RULE_MODES)}")
            if not isinstance(rule.get("type"), str):
                raise invalid_rules(f"the rule {rule['name']} needs a type, such as CEL")


def config_of(body: bytes) -> dict[str, Any]:
    """Return the settings of a request, by the names that records have. Raise Refusal."""
    found = object_of(body)
    made: dict[str, Any] = {}
    level = found.get("compatibility", found.get("compatibilityLevel"))
    if level is not None:
        if not isinstance(level, str) or level.upper() not in LEVELS:
            raise invalid_level(level)
        made["compatibilityLevel"] = level.upper()
    for name, kind in _FIELDS.items():
        value = found.get(name)
        if value is not None and type(value) is not kind:
            raise bad_request(f"the field {name} must be {_NAMES[kind]}")
        if value is not None:
            made[name] = value
    if not made:
        raise invalid_level(level)
    return made


def answered_config(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the settings as answers have them; the level's name depends on the request."""
    made = {} if "compatibilityLevel" not in config else {name: config["compatibilityLevel"]}
    return made | {each: config[each] for each in config if each != "compatibilityLevel"}


def mode_of(body: bytes) -> str:
    """Return the mode of a request. Raise Refusal."""
    found = object_of(body).get("mode")
    if not isinstance(found, str) or found.upper() not in MODES:
        raise invalid_mode(found)
    return found.upper()


def version_of(text: str) -> int | None:
    """Return the number of a version, None for the latest. Raise Refusal."""
    if text in (LATEST, "-1"):
        return None
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= _VERSION_MAX:
        raise invalid_version(text)
    return int(text)
