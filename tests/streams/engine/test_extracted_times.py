"""Which record of two inputs comes first is decided by the times that the app gives them."""

from __future__ import annotations

from moldau.streams import Streams, tumbling
from moldau.streams.testing.driver import Driver


def driver_of(**options: object) -> Driver:
    app = Streams("app")

    def own_time(value: str, _: int) -> int:
        return int(value.split("@")[1])

    names = app.table("names", str, key=str, timestamp=own_time)
    orders = app.stream("orders", str, key=str, timestamp=own_time, on_error="skip")
    orders.join(names, lambda order, name: f"{order} {name}").to("out")
    return app.test(**options)


def joined(batch: int) -> list[str]:
    driver = driver_of(batch=batch)
    # By the records' own times all names would come first.
    driver.add("names", [("a", "one@10", 1), ("a", "two@30", 2)])
    driver.add("orders", [("a", "x@5", 3), ("a", "y@20", 4), ("a", "poison", 5), ("a", "z@40", 6)])
    driver.run()
    driver.commit()
    return [each.value for each in driver.read("out")]


def test_the_lowest_time_of_the_app_runs_first() -> None:
    assert [joined(batch) for batch in (1, 7, 500)] == [["y@20 one@10", "z@40 two@30"]] * 3


def test_a_time_that_no_record_can_have_fails_its_record() -> None:
    app = Streams("app", on_error="skip")
    stream = app.stream("in", int, key=str, timestamp=lambda value, _: value)
    stream.group_by_key().window(tumbling("1s")).count(name="n").changes().to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 2**63, 0), ("a", 2**63 - 1000, 0), ("b", 2**70, 0)])

    assert driver.counters()["skipped"] == 2
    assert len(driver.read("out")) == 1
