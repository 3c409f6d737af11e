"""How many records a share consumer holds."""

from __future__ import annotations

import pytest

from moldau.client.consumer.share.message import delay_ms_of
from moldau.client.consumer.share.reader import Window


def test_a_quick_handler_holds_more_up_to_the_limit() -> None:
    window = Window(100)
    sizes = []
    for now in range(5):
        window.on_refill(now * 0.01)
        sizes.append(window.size)
    assert sizes == [16, 32, 64, 100, 100]


def test_a_slow_handler_holds_fewer_down_to_what_it_handles_at_a_time() -> None:
    window = Window(100)
    for now in range(8):
        window.on_refill(now * 5.0)
    assert window.size == 1
    window.hold_at_least(7)
    for now in range(8, 12):
        window.on_refill(now * 5.0)
    assert window.size == 7


def test_waiting_for_records_says_nothing_about_the_handler() -> None:
    window = Window(100)
    window.on_refill(0.0)
    window.on_idle()
    window.on_refill(60.0)
    assert window.size == 16


@pytest.mark.parametrize(
    ("given", "milliseconds"),
    [(None, -1), ("30s", 30_000), ("500ms", 500), ("2h", 7_200_000), (1.5, 1500), (0, 0)],
)
def test_delays_are_text_or_seconds(given: str | float | None, milliseconds: int) -> None:
    assert delay_ms_of(given) == milliseconds


@pytest.mark.parametrize("given", ["soon", "-1s", "1.5s", -1, float("nan"), True])
def test_what_is_no_delay_is_refused(given: str | float) -> None:
    with pytest.raises(ValueError, match="is no delay"):
        delay_ms_of(given)
