"""What a broker asks of the controller in each part of its life, and what answers make of it."""

from __future__ import annotations

import pytest

from moldau.broker.controller.levels import LevelRange
from moldau.broker.server.lifecycle import NO_EPOCH, BrokerState, Identity, Lifecycle
from moldau.broker.settings import Listener
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from moldau.protocol.messages.broker_registration import BrokerRegistrationResponse

IDENTITY = Identity(
    node_id=4,
    cluster_id="cluster",
    incarnation_id=b"i" * 16,
    rack="r1",
    endpoints=(Listener("INSIDE", "a", 1, "PLAINTEXT"), Listener("OUTSIDE", "b", 2, "SASL_SSL")),
    controller_endpoints=(Listener("CONTROLLER", "c", 3, "PLAINTEXT"),),
    features={"group.version": LevelRange(0, 1)},
    directory_ids=(b"z" * 16, b"a" * 16),
)


def registered(epoch: int = 9, code: int = 0) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(throttle_time_ms=0, error_code=code, broker_epoch=epoch)


def beat(*, fenced: bool = False, stop: bool = False, code: int = 0) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(
        throttle_time_ms=0,
        error_code=code,
        is_caught_up=True,
        is_fenced=fenced,
        should_shut_down=stop,
    )


def running() -> Lifecycle:
    lifecycle = Lifecycle(IDENTITY)
    lifecycle.on_registered(registered())
    lifecycle.on_heartbeat(beat())
    return lifecycle


def test_it_registers_with_all_that_the_cluster_has_to_know() -> None:
    request = Lifecycle(IDENTITY, previous_epoch=5).registration()

    assert (request.broker_id, request.cluster_id, request.rack) == (4, "cluster", "r1")
    assert request.previous_broker_epoch == 5
    assert [(at.name, at.host, at.port, at.security_protocol) for at in request.listeners] == [
        ("INSIDE", "a", 1, 0),
        ("OUTSIDE", "b", 2, 3),
    ]
    assert request.log_dirs == [b"a" * 16, b"z" * 16]
    assert request.encode(4)


def test_the_controller_registers_under_the_same_incarnation() -> None:
    request = Lifecycle(IDENTITY).controller_registration()

    assert (request.controller_id, request.incarnation_id) == (4, b"i" * 16)
    assert [(at.name, at.host, at.port) for at in request.listeners] == [("CONTROLLER", "c", 3)]


def test_a_life_from_start_to_end() -> None:
    lifecycle = Lifecycle(IDENTITY)
    assert not lifecycle.is_registered
    lifecycle.on_registered(registered())
    seen = [lifecycle.state]
    lifecycle.on_heartbeat(beat(fenced=True))
    seen.append(lifecycle.state)
    lifecycle.on_heartbeat(beat())
    seen.append(lifecycle.state)
    lifecycle.stop()
    seen.append(lifecycle.state)
    assert lifecycle.heartbeat(10).want_shut_down
    lifecycle.on_heartbeat(beat())
    seen.append(lifecycle.state)
    lifecycle.on_heartbeat(beat(fenced=True, stop=True))
    seen.append(lifecycle.state)

    assert [state.name for state in seen] == [
        "FENCED",
        "FENCED",
        "RUNNING",
        "STOPPING",
        "STOPPING",
        "STOPPED",
    ]


def test_a_heartbeat_says_the_last_offset_and_what_failed() -> None:
    request = running().heartbeat(12, offline=(b"z" * 16,))

    assert (request.broker_id, request.broker_epoch) == (4, 9)
    assert request.current_metadata_offset == 11
    assert request.offline_log_dirs == [b"z" * 16]
    assert not request.want_shut_down


def test_who_is_refused_does_not_go_on() -> None:
    lifecycle = Lifecycle(IDENTITY)

    with pytest.raises(KafkaError) as refused:
        lifecycle.on_registered(registered(code=ErrorCode.DUPLICATE_BROKER_REGISTRATION))

    assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert lifecycle.state is BrokerState.STARTING


def test_who_was_unregistered_may_register_again() -> None:
    lifecycle = running()
    lifecycle.on_heartbeat(beat(code=ErrorCode.STALE_BROKER_EPOCH))
    assert lifecycle.broker_epoch == NO_EPOCH

    lifecycle.on_registered(registered(epoch=20))

    assert lifecycle.broker_epoch == 20
    assert lifecycle.state is BrokerState.RUNNING


def test_an_answer_that_is_an_error_changes_nothing() -> None:
    lifecycle = running()
    lifecycle.on_heartbeat(beat(fenced=True, code=ErrorCode.NOT_CONTROLLER))

    assert lifecycle.state is BrokerState.RUNNING


def test_stopping_twice_is_stopping() -> None:
    lifecycle = running()
    lifecycle.stop()
    lifecycle.stop()

    assert lifecycle.state is BrokerState.STOPPING
