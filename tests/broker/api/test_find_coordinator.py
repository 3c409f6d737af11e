"""FindCoordinator: nobody is available, told in the form of each version."""

from __future__ import annotations

import pytest

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.broker.api.administered import Administered


@pytest.mark.parametrize("version", range(4))
def test_one_key(version: int) -> None:
    request = FindCoordinatorRequest(key="group")
    answer = Administered().ask(request, FindCoordinatorResponse, version)

    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (answer.node_id, answer.host, answer.port) == (-1, "", -1)
    assert answer.error_message == ("this broker has no coordinators" if version else "")


@pytest.mark.parametrize("version", range(4, 7))
@pytest.mark.parametrize(
    ("key_type", "code"),
    [
        (0, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (3, ErrorCode.INVALID_REQUEST),
        (-1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_many_keys(version: int, key_type: int, code: ErrorCode) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"])
    answer = Administered().ask(request, FindCoordinatorResponse, version)

    found = [(each.key, each.node_id, each.host, each.port) for each in answer.coordinators]
    assert found == [("a", -1, "", -1), ("b", -1, "", -1)]
    assert {each.error_code for each in answer.coordinators} == {code}
