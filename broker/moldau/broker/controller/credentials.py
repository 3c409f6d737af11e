"""SCRAM credentials and delegation tokens: the fold of their records in the metadata log.

Invariant: only derived keys and ids are kept, never a password. `repr` shows no key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from itertools import chain

from moldau.deferred import dataclass
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.metadata_log import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The data with which a server checks a user's password without knowing it."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token. Its secret is derived from its id and a key that is not in the log."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int

    @property
    def principals(self) -> tuple[str, ...]:
        """The owner, the requester and the renewers."""
        return self.owner, self.requester, *self.renewers

    def record(self, token_id: str, expiration_timestamp: int) -> DelegationTokenRecord:
        """Return the record of this token, with another expiration."""
        return DelegationTokenRecord(
            owner=self.owner,
            requester=self.requester,
            renewers=list(self.renewers),
            issue_timestamp=self.issue_timestamp,
            max_timestamp=self.max_timestamp,
            expiration_timestamp=expiration_timestamp,
            token_id=token_id,
        )


class Credentials:
    """SCRAM credentials by user and mechanism, tokens by id."""

    RECORDS = (
        UserScramCredentialRecord,
        RemoveUserScramCredentialRecord,
        DelegationTokenRecord,
        RemoveDelegationTokenRecord,
    )

    __slots__ = ("_scram", "tokens")

    def __init__(self) -> None:
        self._scram: dict[tuple[str, int], ScramCredential] = {}
        self.tokens: dict[str, DelegationToken] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Credentials):
            return NotImplemented
        return self._scram == other._scram and self.tokens == other.tokens

    __hash__ = None  # type: ignore[assignment]  # it changes

    def scram(self, user: str, mechanism: int) -> ScramCredential | None:
        """Return the credential of a user for a mechanism; None if the user has none."""
        return self._scram.get((user, mechanism))

    def scram_users(self) -> Iterator[str]:
        """Yield each user with a SCRAM credential once."""
        return iter(dict.fromkeys(user for user, _ in self._scram))

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record of this family."""
        match record:
            case UserScramCredentialRecord():
                self._scram[record.name, record.mechanism] = ScramCredential(
                    record.salt, record.stored_key, record.server_key, record.iterations
                )
            case RemoveUserScramCredentialRecord():
                self._scram.pop((record.name, record.mechanism), None)
            case DelegationTokenRecord():
                self.tokens[record.token_id] = DelegationToken(
                    record.owner,
                    record.requester,
                    tuple(record.renewers),
                    record.issue_timestamp,
                    record.max_timestamp,
                    record.expiration_timestamp,
                )
            case RemoveDelegationTokenRecord():
                self.tokens.pop(record.token_id, None)
            case _:
                raise AssertionError(f"{type(record).__name__} is not about a credential")

    def records(self, metadata_version: int) -> Iterator[MetadataRecord]:
        """Yield the records of this family for a snapshot, with the current state."""
        scram = (
            UserScramCredentialRecord(
                name=name,
                mechanism=mechanism,
                salt=credential.salt,
                stored_key=credential.stored_key,
                server_key=credential.server_key,
                iterations=credential.iterations,
            )
            for (name, mechanism), credential in self._scram.copy().items()
        )
        tokens = (
            token.record(token_id, token.expiration_timestamp)
            for token_id, token in self.tokens.copy().items()
        )
        return chain(scram, tokens)
