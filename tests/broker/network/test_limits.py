"""The doorkeeper: numbers, addresses, rates and the line."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.network.limits import ConnectionLimits, Rate, Verdict, plain_address
from moldau.broker.network.options import ListenerOptions, NetworkOptions


class Guest:
    def __init__(self, listener: str = "OUT", address: str = "10.0.0.1") -> None:
        self.listener = listener
        self.address = address
        self.is_admitted = False


def limits(
    options: NetworkOptions | None = None, *listeners: ListenerOptions
) -> ConnectionLimits[Guest]:
    made: ConnectionLimits[Guest] = ConnectionLimits(options or NetworkOptions())
    for listener in listeners or (ListenerOptions("OUT"),):
        made.add_listener(listener)
    return made


def test_without_limits_everybody_comes_in() -> None:
    door = limits()

    assert {door.arrive(Guest(), 0.0) for _ in range(1000)} == {Verdict.ADMITTED}
    assert door.connections == door.admitted("OUT") == 1000


def test_nothing_is_admitted_before_a_node_is_up_whatever_the_listener() -> None:
    starting = NetworkOptions(is_admitting=False)
    inside = ListenerOptions("IN", is_protected=True)
    door = limits(starting, ListenerOptions("OUT"), inside)
    assert door.arrive(Guest("OUT"), 0.0) is door.arrive(Guest("IN"), 0.0) is Verdict.WAITING
    assert not door.connections
    assert not door.must_yield
    door.update(NetworkOptions())
    assert door.arrive(Guest("IN"), 0.0) is Verdict.WAITING, "those in line come first"


def test_an_address_has_its_own_limit_and_those_in_line_count_for_it() -> None:
    door = limits(
        NetworkOptions(
            connections_max=1,
            connections_max_per_address=2,
            connections_max_by_address={"10.0.0.9": 0},
        )
    )
    first, second = Guest(), Guest()

    assert door.arrive(first, 0.0) is Verdict.ADMITTED
    assert door.arrive(second, 0.0) is Verdict.WAITING
    assert door.arrive(Guest(), 0.0) is Verdict.ADDRESS_FULL
    assert door.arrive(Guest(address="10.0.0.9"), 0.0) is Verdict.ADDRESS_FULL
    door.leave(second)
    assert door.arrive(Guest(), 0.0) is Verdict.WAITING


def test_those_that_the_process_has_no_files_for_are_turned_away_and_not_put_in_line() -> None:
    room: list[int | None] = [2]
    door: ConnectionLimits[Guest] = ConnectionLimits(
        NetworkOptions(connections_max=1), lambda: room[0]
    )
    door.add_listener(ListenerOptions("OUT"))
    first, second = Guest(), Guest()

    assert door.arrive(first, 0.0) is Verdict.ADMITTED
    assert door.arrive(second, 0.0) is Verdict.WAITING
    assert door.arrive(Guest(address="10.0.0.2"), 0.0) is Verdict.FILES_FULL
    door.leave(second)
    assert door.arrive(Guest(), 0.0) is Verdict.WAITING
    room[0] = 1  # logs have taken them
    assert door.arrive(Guest(), 0.0) is Verdict.FILES_FULL
    room[0] = None
    assert door.arrive(Guest(), 0.0) is Verdict.WAITING


def test_clients_leave_files_for_connections_between_brokers() -> None:
    """An eighth of the files is kept for the protected listener, which may take all."""
    inside = ListenerOptions("IN", is_protected=True)
    door: ConnectionLimits[Guest] = ConnectionLimits(NetworkOptions(), lambda: 16)
    for each in (ListenerOptions("OUT"), inside):
        door.add_listener(each)
    clients = [Guest() for _ in range(15)]
    verdicts = [door.arrive(each, 0.0) for each in clients]
    assert verdicts == [*[Verdict.ADMITTED] * 14, Verdict.FILES_FULL]
    assert door.arrive(Guest("IN"), 0.0) is Verdict.ADMITTED
    assert door.arrive(Guest("IN"), 0.0) is Verdict.ADMITTED
    assert door.arrive(Guest("IN"), 0.0) is Verdict.FILES_FULL

    door.leave(clients[0])
    assert door.arrive(Guest("IN"), 0.0) is Verdict.ADMITTED
    door.leave(clients[1])
    door.leave(clients[2])
    assert door.arrive(Guest(), 0.0) is Verdict.ADMITTED


def test_rejected_connections_that_are_held_have_files_too() -> None:
    inside = ListenerOptions("IN", is_protected=True)
    options = NetworkOptions(connection_rate_of={"10.0.0.9": 1.0}.get)
    door: ConnectionLimits[Guest] = ConnectionLimits(options, lambda: 32)
    for each in (ListenerOptions("OUT"), inside):
        door.add_listener(each)
    assert door.arrive(Guest(address="10.0.0.9"), 0.0) is Verdict.ADMITTED
    assert door.arrive(Guest(address="10.0.0.9"), 0.0) is Verdict.ADDRESS_FAST
    held = [door.hold(is_protected=False) for _ in range(10)]
    assert held == [True] * 4 + [False] * 6, "no more than an eighth: they take no place of others"

    arrived = [door.arrive(Guest(), 0.0) for _ in range(24)]
    assert arrived == [Verdict.ADMITTED] * 23 + [Verdict.FILES_FULL]
    assert door.arrive(Guest("IN"), 0.0) is Verdict.ADMITTED, "clients leave it a file"
    door.release(is_protected=False)
    assert door.arrive(Guest(), 0.0) is Verdict.ADMITTED
    assert door.hold(is_protected=True)
    assert door.arrive(Guest(), 0.0) is Verdict.FILES_FULL
    for is_protected in (False, False, False, True):
        door.release(is_protected=is_protected)
    assert door.held == 0


def test_who_leaves_lets_the_next_one_in_in_order() -> None:
    door = limits(NetworkOptions(connections_max=1))
    first, second, third = Guest(), Guest(), Guest()
    for guest in (first, second, third):
        door.arrive(guest, 0.0)

    assert door.enter(0.0) == []
    door.leave(first)
    assert door.enter(0.0) == [second]
    assert door.waiting("OUT") == 1
    door.leave(third)
    door.leave(second)
    assert door.enter(0.0) == []
    assert door.connections == 0


def test_connections_that_ended_in_line_are_not_admitted_and_use_no_rate() -> None:
    door = limits(NetworkOptions(connections_max=2, connections_per_second=2))
    first, second, *dead, alive = (Guest() for _ in range(6))
    for guest in (first, second, *dead, alive):
        door.arrive(guest, 0.0)
    door.leave(first)
    assert door.enter(0.0, dead.__contains__) == [], "the rate is used up"
    assert door.enter(0.5, dead.__contains__) == [*dead, alive]
    assert [each.is_admitted for each in (*dead, alive)] == [False, False, False, True]
    assert (door.connections, door.waiting("OUT")) == (2, 0)


def test_a_newcomer_does_not_overtake_the_line() -> None:
    door = limits(NetworkOptions(connections_max=1))
    first, second, third = Guest(), Guest(), Guest()
    door.arrive(first, 0.0)
    door.arrive(second, 0.0)
    door.leave(first)

    assert door.arrive(third, 0.0) is Verdict.WAITING
    assert door.enter(0.0) == [second]


def test_the_line_is_bounded() -> None:
    door = limits(NetworkOptions(connections_max=0, waiting_connections_max=2))

    verdicts = [door.arrive(Guest(), 0.0) for _ in range(3)]

    assert verdicts == [Verdict.WAITING, Verdict.WAITING, Verdict.LINE_FULL]


def test_a_full_listener_does_not_block_another() -> None:
    door = limits(None, ListenerOptions("SMALL", connections_max=1), ListenerOptions("OUT"))
    door.arrive(Guest("SMALL"), 0.0)

    assert door.arrive(Guest("SMALL"), 0.0) is Verdict.WAITING
    assert door.arrive(Guest("OUT"), 0.0) is Verdict.ADMITTED


def test_brokers_come_in_although_the_node_is_full_and_somebody_has_to_make_room() -> None:
    inside = ListenerOptions("IN", is_protected=True, connections_max=1)
    door = limits(NetworkOptions(connections_max=1), ListenerOptions("OUT"), inside)
    client = Guest()
    door.arrive(client, 0.0)
    must_yield = [door.must_yield]

    assert door.arrive(Guest("IN"), 0.0) is Verdict.ADMITTED
    must_yield.append(door.must_yield)
    assert door.arrive(Guest("IN"), 0.0) is Verdict.WAITING, "their own limit holds"
    door.leave(client)
    assert [*must_yield, door.must_yield] == [False, True, False]


def test_connections_that_come_too_fast_are_spread_over_time() -> None:
    door = limits(NetworkOptions(connections_per_second=10))
    guests = [Guest() for _ in range(30)]
    verdicts = [door.arrive(guest, 5.0) for guest in guests]

    assert verdicts.count(Verdict.ADMITTED) == 10
    now, entered = 5.0, [guest for guest in guests if guest.is_admitted]
    while (wait := door.wait(now)) is not None:
        assert wait > 0
        now += wait
        entered += door.enter(now)
    assert entered == guests
    assert 6.9 < now < 7.1, "twenty more at ten a second"


def test_nobody_waits_for_time_alone_when_there_is_no_room() -> None:
    door = limits(NetworkOptions(connections_max=0, connections_per_second=1))
    door.arrive(Guest(), 0.0)

    assert door.wait(0.0) is None


def test_limits_change_while_running() -> None:
    options = NetworkOptions(connections_max=1, connections_per_second=1)
    door = limits(options)
    guests = [Guest() for _ in range(3)]
    for guest in guests:
        door.arrive(guest, 0.0)

    door.update(replace(options, connections_max=3, connections_per_second=100))

    assert door.enter(0.0) == guests[1:]


def test_limits_of_a_listener_change_while_running() -> None:
    first = ListenerOptions("OUT", connections_max=1, connections_per_second=1)
    door = limits(None, first, ListenerOptions("IN", connections_max=1))
    guests = [Guest() for _ in range(3)]
    other = [Guest("IN"), Guest("IN")]
    for guest in [*guests, *other]:
        door.arrive(guest, 0.0)

    door.update_listener(replace(first, connections_max=3, connections_per_second=100))

    assert door.enter(0.0) == guests[1:], "the other listener is as full as before"
    door.update_listener(ListenerOptions("NEXT", connections_max=0))  # opens at the next start
    assert door.enter(0.0) == []


def test_a_listener_can_be_taken_back() -> None:
    door = limits()
    door.remove_listener("OUT")
    door.add_listener(ListenerOptions("OUT", connections_max=0))

    assert door.arrive(Guest(), 0.0) is Verdict.WAITING


def test_an_address_is_the_same_through_both_kinds_of_sockets() -> None:
    assert plain_address("::ffff:10.1.2.3") == "10.1.2.3"
    assert plain_address("10.1.2.3") == "10.1.2.3"
    assert plain_address("2001:db8::1") == "2001:db8::1"
    assert plain_address("::ffff:0:1") == "::ffff:0:1"


@given(st.integers(1, 50), st.lists(st.floats(0, 0.5), max_size=100))
def test_a_rate_never_lets_more_through_than_a_second_at_once_and_then_so_many_a_second(
    per_second: int, pauses: list[float]
) -> None:
    rate, now, taken = Rate(per_second), 100.0, 0
    for pause in pauses:
        now += pause
        while not rate.wait(now):
            rate.take()
            taken += 1

    assert taken <= per_second * (1 + now - 100.0) + 0.001


@given(
    st.lists(
        st.tuples(st.sampled_from(["arrive", "leave", "enter"]), st.integers(0, 9)), max_size=80
    ),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_whatever_happens_the_counts_hold(
    events: list[tuple[str, int]], node_max: int, listener_max: int
) -> None:
    door = limits(
        NetworkOptions(connections_max=node_max, waiting_connections_max=3),
        ListenerOptions("OUT", connections_max=listener_max),
        ListenerOptions("OTHER"),
    )
    here: list[Guest] = []
    for what, which in events:
        if what == "arrive":
            guest = Guest(("OUT", "OTHER")[which % 2], f"10.0.0.{which}")
            if door.arrive(guest, 0.0) in (Verdict.ADMITTED, Verdict.WAITING):
                here.append(guest)
        elif what == "leave" and here:
            door.leave(here.pop(which % len(here)))
        elif what == "enter":
            assert all(guest.is_admitted and guest in here for guest in door.enter(0.0))
        admitted = [guest for guest in here if guest.is_admitted]
        assert door.connections == len(admitted) <= node_max
        assert door.admitted("OUT") <= listener_max
        assert door.waiting("OUT") + door.waiting("OTHER") == len(here) - len(admitted)


def test_an_address_with_a_quota_opens_connections_at_its_rate() -> None:
    quotas: dict[str, float] = {"10.0.0.1": 2.0}
    door = limits(NetworkOptions(connection_rate_of=quotas.get))

    def arrived(address: str, now: float) -> Verdict:
        return door.arrive(Guest(address=address), now)

    assert [arrived("10.0.0.1", 1.0) for _ in range(3)] == [
        Verdict.ADMITTED,
        Verdict.ADMITTED,
        Verdict.ADDRESS_FAST,
    ]
    assert {arrived("10.0.0.2", 1.0) for _ in range(100)} == {Verdict.ADMITTED}
    assert arrived("10.0.0.1", 1.5) is Verdict.ADMITTED
    quotas["10.0.0.1"] = 100.0
    assert {arrived("10.0.0.1", 1.5) for _ in range(100)} == {Verdict.ADMITTED}
    quotas.clear()
    assert arrived("10.0.0.1", 1.5) is Verdict.ADMITTED
    assert door.connections == 204
