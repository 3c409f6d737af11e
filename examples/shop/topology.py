"""The shop's statistics, a Streams app: `moldau streams run examples.shop.topology:app`.

It writes two topics:
`shop-sales`    each order with the name and country of its customer (a stream joined with a table)
`shop-revenue`  the revenue of each minute, again whenever it changes (a windowed sum)

Times are those of the orders, not of the machine: the demo sells two minutes' orders in a second.
"""

from __future__ import annotations

from dataclasses import dataclass

from moldau.streams import Streams, Windowed, tumbling

CUSTOMERS, ORDERS = "shop-customers", "shop-orders"
SALES, REVENUE = "shop-sales", "shop-revenue"
APP = "shop"


@dataclass(frozen=True)
class Customer:
    id: int
    name: str
    country: str


@dataclass(frozen=True)
class Order:
    id: int
    customer_id: int
    cents: int
    at: int
    """Milliseconds since 1970."""


@dataclass(frozen=True)
class Sale:
    id: int
    customer: str
    country: str
    cents: int
    at: int


@dataclass(frozen=True)
class Minute:
    start: int
    cents: int


def sale(order: Order, customer: Customer | None) -> Sale:
    """Join an order with its customer. The customer may be unknown."""
    if customer is None:
        return Sale(order.id, "unknown", "unknown", order.cents, order.at)
    return Sale(order.id, customer.name, customer.country, order.cents, order.at)


def customer_id(customer: Customer) -> int:
    return customer.id


def minute(window: Windowed[str], cents: int) -> Minute:
    return Minute(window.start, cents)


def time_of(order: Order, record_time: int) -> int:
    """Return the time of the order, which is the time of its record."""
    return order.at


app = Streams(APP)

customers = app.stream(CUSTOMERS, Customer).select_key(customer_id).to_table(name="customers")
orders = app.stream(ORDERS, Order, timestamp=time_of)
(
    orders.select_key(lambda order: order.customer_id)
    .left_join(customers, sale, name="with-customer")
    .to(SALES)
)
(
    orders.group_by(lambda order: "all")
    .window(tumbling("1m", grace="1h"))
    .sum(lambda order: order.cents, name="revenue")
    .changes()
    .map_values(minute)
    .to(REVENUE)
)
