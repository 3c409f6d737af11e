"""The errors of the REST API, with Confluent's numbers."""

from __future__ import annotations

from typing import Final

from moldau.errors import MoldauError

INVALID_SCHEMA: Final = 42201
INCOMPATIBLE: Final = 409
TOO_LARGE: Final = 42209
STORE: Final = 50001
TIMEOUT: Final = 50002
FORWARDING: Final = 50003
NO_LEADER: Final = 50004


class Refusal(MoldauError):
    """A request that is answered with an error. The status is the first three digits of `code`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code if self.code < 1000 else self.code // 100

    def to_json(self) -> dict[str, object]:
        """Return the body of the answer."""
        return {"error_code": self.code, "message": self.message}


def no_subject(subject: str) -> Refusal:
    return Refusal(40401, f"Subject '{subject}' not found.")


def no_version(version: object) -> Refusal:
    return Refusal(40402, f"Version {version} not found.")


def no_schema(which: object = None) -> Refusal:
    return Refusal(40403, "Schema not found" if which is None else f"Schema {which} not found")


def subject_is_deleted(subject: str) -> Refusal:
    message = f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    return Refusal(40404, message)


def subject_is_not_deleted(subject: str) -> Refusal:
    message = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return Refusal(40405, message)


def version_is_deleted(subject: str, version: int) -> Refusal:
    return Refusal(
        40406,
        f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete "
        "permanently",
    )


def version_is_not_deleted(subject: str, version: int) -> Refusal:
    return Refusal(
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently "
        "deleted",
    )


def no_config(subject: str) -> Refusal:
    message = f"Subject '{subject}' does not have subject-level compatibility configured"
    return Refusal(40408, message)


def no_mode(subject: str) -> Refusal:
    message = f"Subject '{subject}' does not have subject-level mode configured"
    return Refusal(40409, message)


def incompatible(subject: str, messages: list[str]) -> Refusal:
    return Refusal(
        INCOMPATIBLE,
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: [{", ".join(messages)}]',
    )


def invalid_schema(schema_type: str, reason: str) -> Refusal:
    return Refusal(INVALID_SCHEMA, f"Invalid schema of type {schema_type}, details: {reason}")


def invalid_version(version: object) -> Refusal:
    return Refusal(
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between "
        '[1, 2^31-1] and the string "latest"',
    )


def invalid_level(level: object) -> Refusal:
    return Refusal(
        42203,
        f"Invalid compatibility level {level!r}. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode(mode: object) -> Refusal:
    return Refusal(
        42204,
        f"Invalid mode {mode!r}. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and "
        "IMPORT",
    )


def not_permitted(message: str) -> Refusal:
    return Refusal(42205, message)


def is_referenced(subject: str, version: int) -> Refusal:
    return Refusal(
        42206,
        "One or more references exist to the schema "
        f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}.",
    )


def not_the_next_version(subject: str, version: int, following: int) -> Refusal:
    message = f"Version {version} of subject {subject} cannot be made: the next one is {following}"
    return Refusal(INVALID_SCHEMA, message)


def id_is_taken(schema_id: int) -> Refusal:
    return Refusal(42207, f"Schema id {schema_id} is already used by another schema")


def invalid_subject(subject: str) -> Refusal:
    return Refusal(42208, f"The specified subject '{subject}' is not a valid subject")


def invalid_rules(reason: str) -> Refusal:
    return Refusal(42210, f"Invalid rule set: {reason}")


def context_is_not_empty(context: str) -> Refusal:
    return Refusal(42211, f"The context '{context}' is not empty: delete its subjects first")


def bad_request(message: str) -> Refusal:
    return Refusal(400, message)


def too_much_work(subject: str, version: int, level: str) -> Refusal:
    cure = "set a level that is not transitive, or delete old versions"
    if not level.endswith("_TRANSITIVE"):
        cure = "set the level NONE for this version"
    return Refusal(
        TOO_LARGE,
        f"The schemas are too large to compare at the level {level}: the check ended at version "
        f"{version} of subject '{subject}': {cure}",
    )
