"""Quotas of clients are described and not taken.

What Kafka answers where SASL and ACLs are off is compared in tests/differential.
"""

from __future__ import annotations

import pytest

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages import alter_client_quotas as altering
from moldau.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from moldau.protocol.schemas.metadata_log import ClientQuotaRecord, EntityData
from tests.broker.api.administered import Administered


@pytest.mark.parametrize("version", range(2))
def test_quotas_of_the_metadata_are_described_and_none_is_taken(version: int) -> None:
    administered = Administered(1)
    administered.cluster.append(
        [
            ClientQuotaRecord(
                entity=[EntityData(entity_type="user", entity_name=name)],
                key="producer_byte_rate",
                value=value,
                remove=False,
            )
            for name, value in (("alice", 7.0), (None, 9.0))
        ]
    )

    def described(match_type: int, match: str | None) -> list[tuple[str | None, float]]:
        component = ComponentData(entity_type="user", match_type=match_type, match=match)
        request = DescribeClientQuotasRequest(components=[component], strict=True)
        response = administered.ask(request, DescribeClientQuotasResponse, version)
        return [
            (each.entity[0].entity_name, each.values[0].value) for each in response.entries or ()
        ]

    assert described(0, "alice") == [("alice", 7.0)]
    assert described(1, None) == [(None, 9.0)]
    assert len(described(2, None)) == 2
    entity = [altering.EntityData(entity_type="user", entity_name="bob")]
    change = altering.OpData(key="producer_byte_rate", value=1.0, remove=False)
    entry = altering.AlterClientQuotasRequestEntryData(entity=entity, ops=[change])
    request = altering.AlterClientQuotasRequest(entries=[entry], validate_only=False)
    response = administered.ask(request, altering.AlterClientQuotasResponse, version)
    (outcome,) = response.entries
    assert outcome.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "does not enforce quotas" in (outcome.error_message or "")
    assert len(described(2, None)) == 2
