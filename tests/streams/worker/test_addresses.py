"""Where a worker listens, and what it tells others."""

from __future__ import annotations

import pytest

from moldau.config import BadSettings
from moldau.streams.worker.addresses import HostPort, advertised, listen_place
from moldau.streams.worker.settings import AppSettings, app_settings

ALL = "0.0.0.0"  # noqa: S104 - nothing is bound


def given(listen: str, server: str = "") -> AppSettings:
    return app_settings({"queries.listen": listen, "application.server": server})


def test_each_worker_has_a_port_of_its_own() -> None:
    settings = given("127.0.0.1:8100")
    assert listen_place(settings, 2) == HostPort("127.0.0.1", 8102)
    assert advertised(settings, HostPort("127.0.0.1", 8102), 2) == "127.0.0.1:8102"
    assert listen_place(given("[::1]:0"), 2) == HostPort("::1", 0)
    assert advertised(given("[::1]:0"), HostPort("::1", 5), 2) == "[::1]:5"
    assert listen_place(given(""), 0) is None


def test_the_address_for_others_may_be_another() -> None:
    settings = given("0.0.0.0:8100", "host.example:9100")
    assert advertised(settings, HostPort(ALL, 8101), 1) == "host.example:9101"
    assert HostPort(ALL, 1).is_open
    assert not HostPort("127.0.0.1", 1).is_open


@pytest.mark.parametrize(
    ("listen", "server", "told"),
    [
        (
            "0.0.0.0:80",
            "",
            "application.server: must be given: 0.0.0.0:80 listens at all addresses",
        ),
        ("8080", "", "queries.listen: '8080' must be host:port"),
        ("a:99999", "", "must be host:port"),
    ],
)
def test_addresses_that_cannot_be(listen: str, server: str, told: str) -> None:
    with pytest.raises(BadSettings, match=told):
        listen_place(given(listen, server), 0)
