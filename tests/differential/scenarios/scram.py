"""SCRAM credentials: set, described, removed, and each way in which one is refused."""

from __future__ import annotations

from moldau.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from moldau.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.differential.talk import Talk, versions

SHA_256, SHA_512 = 1, 2


def put(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=b"salt",
        salted_password=b"s" * 32,
    )


def drop(user: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


CASES: list[tuple[str, list[ScramCredentialDeletion], list[ScramCredentialUpsertion]]] = [
    ("nothing", [], []),
    ("one", [], [put("alice")]),
    ("again", [], [put("alice", iterations=8192)]),
    ("another mechanism", [], [put("alice", SHA_512)]),
    ("both mechanisms at once", [], [put("bob"), put("bob", SHA_512)]),
    ("three times", [], [put("bob"), put("bob", SHA_512), put("bob")]),
    ("few iterations", [], [put("bob", iterations=4095)]),
    ("no iterations", [], [put("bob", iterations=-1)]),
    ("most iterations", [], [put("bob", iterations=16_384)]),
    ("many iterations", [], [put("bob", iterations=16_385)]),
    ("unknown mechanism", [], [put("bob", 3)]),
    ("mechanism 0", [], [put("bob", 0)]),
    ("no name", [], [put("")]),
    ("no name is not found", [drop("")], []),
    ("absent", [drop("nobody")], []),
    ("absent mechanism", [drop("bob", SHA_512)], []),
    ("removed mechanism is unknown", [drop("alice", 9)], []),
    ("removed and set", [drop("alice")], [put("alice")]),
    ("removed twice", [drop("alice"), drop("alice", SHA_512)], []),
    ("absent removed and set", [drop("carol")], [put("carol")]),
    ("removed", [drop("alice", SHA_512)], []),
    ("non-ASCII", [], [put("j\u00f6rg=,a")]),
]


async def scenario(talk: Talk) -> None:
    altering, describing = (
        versions(AlterUserScramCredentialsRequest),
        versions(DescribeUserScramCredentialsRequest),
    )
    nothing = DescribeUserScramCredentialsRequest(users=None)
    await talk.ask("describe before", nothing, describing)
    for name, deletions, upsertions in CASES:
        request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
        await talk.ask(name, request, altering)
    one = DescribeUserScramCredentialsRequest(users=[UserName(name="alice")])
    await talk.ask("describe one", one, describing)
    empty = DescribeUserScramCredentialsRequest(users=[])
    await talk.ask("describe all", empty, describing)
    for users in (["nobody"], ["alice", "alice"], [""]):
        named = DescribeUserScramCredentialsRequest(users=[UserName(name=each) for each in users])
        await talk.ask(f"describe {users}", named, describing)
