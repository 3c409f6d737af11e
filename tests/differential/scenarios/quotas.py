"""Quotas of clients: set, described, removed, and refused."""

from __future__ import annotations

from moldau.protocol.messages import alter_client_quotas as altering
from moldau.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from tests.differential.talk import Talk, versions

Entity = dict[str, str | None]
PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
LARGE = float(1 << 40)


def entry(
    entity: Entity, *ops: tuple[str, float | None]
) -> altering.AlterClientQuotasRequestEntryData:
    return altering.AlterClientQuotasRequestEntryData(
        entity=[
            altering.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
        ],
        ops=[
            altering.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops
        ],
    )


CASES: list[tuple[str, list[altering.AlterClientQuotasRequestEntryData]]] = [
    ("nothing", []),
    ("a user", [entry({"user": "alice"}, (PRODUCE, LARGE), (FETCH, LARGE))]),
    ("the same again", [entry({"user": "alice"}, (PRODUCE, LARGE))]),
    ("a client", [entry({"client-id": "c"}, (PRODUCE, LARGE))]),
    ("both", [entry({"client-id": "c", "user": "alice"}, (PRODUCE, LARGE + 1))]),
    ("all users", [entry({"user": None}, (FETCH, LARGE))]),
    ("all of both", [entry({"client-id": None, "user": None}, (FETCH, LARGE))]),
    ("no change", [entry({"user": "bob"})]),
    ("no entity", [entry({}, (PRODUCE, LARGE))]),
    ("an empty name", [entry({"user": ""}, (PRODUCE, LARGE))]),
    ("an unknown type", [entry({"topic": "t"}, (PRODUCE, LARGE))]),
    ("an address and a user", [entry({"user": "u", "ip": "1.2.3.4"}, (PRODUCE, LARGE))]),
    ("an unknown key", [entry({"user": "bob"}, ("nope", LARGE))]),
    ("a key of addresses", [entry({"user": "bob"}, ("connection_creation_rate", 5.0))]),
    ("a key of users", [entry({"ip": "1.2.3.4"}, (PRODUCE, 5.0))]),
    ("time", [entry({"user": "bob"}, ("request_percentage", 12.5))]),
    ("topic changes", [entry({"user": "bob"}, ("controller_mutation_rate", 0.5))]),
    ("connections", [entry({"ip": "1.2.3.4"}, ("connection_creation_rate", 5.0))]),
    ("connections of all", [entry({"ip": None}, ("connection_creation_rate", 5.0))]),
    ("half a connection", [entry({"ip": "1.2.3.4"}, ("connection_creation_rate", 0.5))]),
    ("too many connections", [entry({"ip": "1.2.3.4"}, ("connection_creation_rate", 1e10))]),
    ("zero", [entry({"user": "bob"}, (PRODUCE, 0.0))]),
    ("negative", [entry({"user": "bob"}, (PRODUCE, -1.0))]),
    ("a fraction", [entry({"user": "bob"}, (PRODUCE, 1.5))]),
    ("too large", [entry({"user": "bob"}, (PRODUCE, 1e300))]),
    ("one of two keys wrong", [entry({"user": "bob"}, (PRODUCE, LARGE), ("nope", LARGE))]),
    ("removal of none", [entry({"user": "bob"}, (PRODUCE, None))]),
    ("removal of an unknown key", [entry({"user": "bob"}, ("nope", None))]),
    ("removal", [entry({"user": "alice"}, (FETCH, None))]),
]


async def scenario(talk: Talk) -> None:
    for name, entries in CASES:
        request = altering.AlterClientQuotasRequest(entries=entries, validate_only=False)
        await talk.ask(name, request, versions(altering.AlterClientQuotasRequest))
    checked = entry({"user": "carol"}, (PRODUCE, LARGE))
    request = altering.AlterClientQuotasRequest(entries=[checked], validate_only=True)
    await talk.ask("only checked", request, versions(altering.AlterClientQuotasRequest))
    for label, component, strict in (
        ("alice", ComponentData(entity_type="user", match_type=0, match="alice"), True),
        ("the default", ComponentData(entity_type="user", match_type=1, match=None), True),
        ("carol", ComponentData(entity_type="user", match_type=0, match="carol"), False),
    ):
        described = DescribeClientQuotasRequest(components=[component], strict=strict)
        await talk.ask(f"describe {label}", described, versions(DescribeClientQuotasRequest))
