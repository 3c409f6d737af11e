"""DescribeCluster on a controller's listener: the controllers, and the leader of the quorum."""

from __future__ import annotations

import pytest

from moldau.broker.api.cluster import Controllers, answer_of_controllers
from moldau.broker.controller.image import Image
from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import NOT_ASKED
from moldau.protocol.messages import describe_cluster as describing
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.runtime import Runtime
from moldau.testing.simulated_cluster import CLUSTER_ID
from tests.broker.cluster.world import CONTROLLER_PORT, SimulatedBrokers, new_world
from tests.broker.server.wire import Wire

BROKERS, CONTROLLERS = 1, 2


def asking(endpoint_type: int) -> describing.DescribeClusterRequest:
    return describing.DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=endpoint_type,
    )


def ask(
    brokers: SimulatedBrokers, node_id: int, endpoint_type: int, version: int
) -> describing.DescribeClusterResponse:
    async def program(runtime: Runtime) -> describing.DescribeClusterResponse:
        wire = await Wire.open(runtime, f"b{node_id}", CONTROLLER_PORT)
        request = asking(endpoint_type)
        found = await wire.ask(request, describing.DescribeClusterResponse, version)
        wire.close()
        return found

    return brokers.run(program, f"asker-{node_id}-{endpoint_type}-{version}", within=30)


@pytest.mark.parametrize("controllers", [0, 3])
def test_each_controller_tells_of_all_and_of_the_leader(controllers: int) -> None:
    with new_world(21) as world:
        brokers = SimulatedBrokers(world, 2, controllers=controllers)
        brokers.await_up()
        world.run_for(3)  # until each has registered and heard of the others
        leader = brokers.controller()
        for node_id in brokers.controller_ids:
            for version in (1, 2):
                told = ask(brokers, node_id, CONTROLLERS, version)
                assert (told.error_code, told.endpoint_type) == (ErrorCode.NONE, CONTROLLERS)
                assert (told.cluster_id, told.controller_id) == (CLUSTER_ID, leader)
                assert [(each.broker_id, each.host, each.port) for each in told.brokers] == [
                    (each, f"b{each}", CONTROLLER_PORT) for each in brokers.controller_ids
                ]
                assert not any(each.is_fenced or each.rack for each in told.brokers)
                assert told.cluster_authorized_operations == NOT_ASKED


@pytest.mark.parametrize(
    ("endpoint_type", "version", "code"),
    [
        (BROKERS, 0, ErrorCode.INVALID_REQUEST),
        (BROKERS, 1, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, 2, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_other_endpoints_than_controllers_are_refused(
    endpoint_type: int, version: int, code: ErrorCode
) -> None:
    with new_world(22) as world:
        brokers = SimulatedBrokers(world, 1, controllers=1)
        brokers.await_up()
        told = ask(brokers, brokers.controller_ids[0], endpoint_type, version)
        assert told.error_code == code
        assert (told.cluster_id, told.controller_id, told.brokers) == ("", -1, [])


def test_a_metadata_version_without_registered_controllers_is_told() -> None:
    view = Controllers(Image(), CLUSTER_ID, 1, "CONTROLLER")  # an empty image is of the lowest
    told = answer_of_controllers(view, asking(CONTROLLERS), 2)
    assert told.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_controllers_say_that_they_serve_it() -> None:
    with new_world(23) as world:
        brokers = SimulatedBrokers(world, 1, controllers=1)
        brokers.await_up()

        async def program(runtime: Runtime) -> ApiVersionsResponse:
            wire = await Wire.open(runtime, f"b{brokers.controller_ids[0]}", CONTROLLER_PORT)
            request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
            found = await wire.ask(request, ApiVersionsResponse)
            wire.close()
            return found

        told = brokers.run(program, "asker", within=30)
        (found,) = [each for each in told.api_keys if each.api_key == 60]
        assert (found.min_version, found.max_version) == (0, 2)
