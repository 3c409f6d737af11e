"""What Kafka always offers, and answers where it is off: SASL, ACLs, quotas."""

from __future__ import annotations

from moldau.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from moldau.protocol.messages.describe_acls import DescribeAclsRequest
from moldau.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from moldau.protocol.messages.list_transactions import ListTransactionsRequest
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.differential.talk import Talk, versions

ALICE = "User:alice"
TOPIC, READ, ALLOW, ANY = 2, 3, 3, 1


async def scenario(talk: Talk) -> None:
    for mechanism in ("PLAIN", "nope", ""):
        request = SaslHandshakeRequest(mechanism=mechanism)
        await talk.ask(f"handshake for {mechanism!r}", request, versions(SaslHandshakeRequest))
    sasl = SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret")
    await talk.ask("bytes", sasl, versions(SaslAuthenticateRequest))
    every = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    await talk.ask("describe rules", every, versions(DescribeAclsRequest))
    creation = AclCreation(
        resource_type=TOPIC,
        resource_name="orders",
        principal=ALICE,
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    both = CreateAclsRequest(creations=[creation, creation])
    await talk.ask("create rules", both, versions(CreateAclsRequest))
    wanted = DeleteAclsFilter(
        resource_type_filter=TOPIC,
        resource_name_filter="orders",
        principal_filter=ALICE,
        host_filter="*",
        operation=READ,
        permission_type=ALLOW,
    )
    deletion = DeleteAclsRequest(filters=[wanted, wanted])
    await talk.ask("delete rules", deletion, versions(DeleteAclsRequest))
    for kind in ("user", "client-id"):
        component = ComponentData(entity_type=kind, match_type=2, match=None)
        quotas = DescribeClientQuotasRequest(components=[component], strict=False)
        await talk.ask(f"quotas by {kind}", quotas, versions(DescribeClientQuotasRequest))
    for states in ([], ["Ongoing"]):
        listing = ListTransactionsRequest(state_filters=states, producer_id_filters=[])
        await talk.ask(f"transactions {states}", listing, versions(ListTransactionsRequest))
