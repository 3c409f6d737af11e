"""The pages for a service, a worker and a job on a Kafka that is there: docs/fastapi.md,
docs/django-celery.md and docs/airflow-dagster.md, followed as they stand.

The Kafka is a broker of moldau here; the pages name its address only by BOOTSTRAP.
"""

from __future__ import annotations

import json
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from moldau.client.sync import Producer
from moldau.runtime.node_processes import free_ports
from tests.e2e.readers import PATIENCE_S, Reader, reader_of
from tests.peers.eventually import eventually
from tests.wheels import all_wheels, needs_uv

pytestmark = [pytest.mark.slow, pytest.mark.real, needs_uv]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return all_wheels(tmp_path_factory.mktemp("ways-in"))


def _read(answer: Any) -> Any:
    """What it says, if that is JSON."""
    text = answer.read()
    return json.loads(text) if "json" in answer.headers.get("Content-Type", "") else text


class Service:
    """A service on a port of this machine."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"

    def ask(self, path: str, body: object = None) -> tuple[int, Any]:
        """Return the status and what the service says. A body of bytes is a form."""
        data, kind = None, "application/x-www-form-urlencoded"
        if isinstance(body, bytes):
            data = body
        elif body is not None:
            data, kind = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(  # noqa: S310 - this machine's
            self._address + path, data, {"Content-Type": kind}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return answer.status, _read(answer)
        except urllib.error.HTTPError as error:
            return error.code, _read(error)

    def await_up(self, path: str) -> None:
        def is_up() -> bool:
            try:
                return self.ask(path)[0] < 500
            except OSError:
                return False

        eventually(is_up, within_s=PATIENCE_S)


# A service with FastAPI


@pytest.fixture
def fastapi(wheels: Path, tmp_path: Path) -> Iterator[Reader]:
    with reader_of("fastapi.md", tmp_path) as reader:
        reader.install(wheels, "fastapi")
        reader.write("first.py", "shop.py", "mailer.py", "test_shop.py")
        yield reader


def test_a_service_with_fastapi(fastapi: Reader) -> None:
    fastapi.do_line("moldau topic create orders")
    first, one, two, mail_one, mail_two = free_ports(5)

    def uvicorn(app: str, port: int, log: str) -> Any:
        line = fastapi.line(f"uvicorn {app} ").rpartition(" ")[0]
        return fastapi.started(f"{line} {port}", log)

    with uvicorn("first:app", first, "first"):
        service = Service(first)
        service.await_up("/docs.json")
        status, said = service.ask("/orders", {"id": 1})
        assert (status, said["offset"]) == (201, 0)
        assert fastapi.values("orders", 1) == [b'{"id": 1}']

    with ExitStack() as shops:
        for port, log in ((one, "one"), (two, "two")):
            shops.enter_context(uvicorn("shop:app", port, log))
        services = [Service(one), Service(two)]
        for each in services:
            each.await_up("/health/ready")
        customers = [f"customer-{number}" for number in range(10)]
        for number, customer in enumerate(customers):
            order = {"id": number, "customer": customer, "total": 2.5}
            assert services[number % 2].ask("/orders", order)[0] == 201

        def totals() -> list[float]:
            return [sum(each.ask(f"/totals/{who}")[1] for each in services) for who in customers]

        eventually(lambda: totals() == [2.5] * 10, within_s=PATIENCE_S)
        assert fastapi.values("orders.bad", 1) == [b'{"id": 1}']  # an order without a customer
        assert services[0].ask("/health/live") == (200, True)
        assert services[0].ask("/health/ready") == (200, {})
        large = {"id": 0, "customer": "x" * 2_000_000, "total": 0}
        assert services[0].ask("/orders", large) == (413, {"error": "MESSAGE_TOO_LARGE"})
        assert services[0].ask("/orders", {"id": 0})[0] == 422
    assert "LAG" in fastapi.do("moldau group describe shop -b $BOOTSTRAP")

    fastapi.do_line("moldau config set group mailer")
    with (
        uvicorn("mailer:app", mail_one, "mail-one"),
        uvicorn("mailer:app", mail_two, "mail-two"),
    ):
        mailers = [Service(mail_one), Service(mail_two)]
        for each in mailers:
            each.await_up("/sent")
        eventually(lambda: sum(len(each.ask("/sent")[1]) for each in mailers) == 11)


def test_a_service_with_fastapi_outlives_its_kafka(fastapi: Reader) -> None:
    fastapi.do_line("moldau topic create orders")
    (port,) = free_ports(1)
    order, service = {"id": 1, "customer": "ann", "total": 1}, Service(port)
    with fastapi.started(f"{fastapi.line('uvicorn shop:app').rpartition(' ')[0]} {port}", "shop"):
        service.await_up("/health/ready")
        assert service.ask("/orders", order)[0] == 201
        eventually(lambda: service.ask("/totals/ann")[1] == 1, within_s=PATIENCE_S)
        fastapi.broker.stop()
        assert service.ask("/orders", order) == (503, {"error": "REQUEST_TIMED_OUT"})
        eventually(lambda: service.ask("/health/ready")[0] == 503)
        assert service.ask("/health/live") == (200, True)
        fastapi.broker.start()
        eventually(lambda: service.ask("/orders", order)[0] == 201, within_s=PATIENCE_S)
        eventually(lambda: service.ask("/health/ready")[0] == 200, within_s=PATIENCE_S)


def test_the_test_of_the_service(fastapi: Reader) -> None:
    del fastapi.environment["BOOTSTRAP"]
    assert "1 passed" in fastapi.do_line("pytest")


# A worker with Django or Celery

PROJECT = (
    "orders/kafka.py",
    "orders/models.py",
    "orders/views.py",
    "shop/urls.py",
    "orders/management/commands/relay_outbox.py",
    "orders/management/commands/ship_orders.py",
)


@pytest.fixture
def django(wheels: Path, tmp_path: Path) -> Iterator[Reader]:
    with reader_of("django-celery.md", tmp_path) as reader:
        reader.install(wheels, "django")
        yield reader


def test_a_project_with_django(django: Reader) -> None:
    django.do_line("django-admin startproject")
    django.write(*PROJECT)
    django.do_line("echo 'INSTALLED_APPS")
    django.do_line("echo 'DATABASES")
    django.do_line("python manage.py makemigrations")
    (port,) = free_ports(1)
    service = Service(port)

    def post(path: str, customer: str, total: int) -> int:
        return service.ask(path, f"customer={customer}&total={total}".encode())[0]

    customers = [f"customer-{number}" for number in range(10)]
    line = django.line("gunicorn ").replace("8000", str(port))
    with django.started(line, "gunicorn"):
        service.await_up("/nothing")
        for customer in customers:
            assert post("/announced", customer, 5) == 201
            assert post("/announced", customer, 0) == 400
            assert post("/placed", customer, 5) == 201
            assert post("/placed", customer, -5) == 201
        announced = django.values("announced", 10)
    assert sorted(json.loads(each)["customer"] for each in announced) == customers

    count = "from orders.models import *; print(Outbox.objects.count(), Shipment.objects.count())"
    assert "20 0" in django.do(f"python manage.py shell -c '{count}'")
    with (
        django.started(django.line("python manage.py relay_outbox"), "relay"),
        django.started(django.line("python manage.py ship_orders"), "ship-one"),
        django.started(django.line("python manage.py ship_orders"), "ship-two"),
    ):
        eventually(
            lambda: "0 20" in django.do(f"python manage.py shell -c '{count}'"),
            within_s=PATIENCE_S,
        )
    assert len(django.values("placed", 20)) == 20
    assert "shipping" in django.do("moldau group describe shipping -b $BOOTSTRAP")


def test_tasks_of_celery_and_a_fork(django: Reader) -> None:
    django.write("tasks.py", "forked.py")
    # A folder in place of a broker for Celery: what one process puts out is what another takes in.
    (django.folder / "data_in").mkdir()
    (django.folder / "data_out").symlink_to("data_in")
    django.environment["CELERY_BROKER"] = "filesystem://"
    django.do("python -c 'from tasks import remind; [remind.delay(str(n)) for n in range(20)]'")
    with django.started(django.line("celery -A tasks worker"), "celery"):
        assert django.values("reminders", 20) == [b"pay!"] * 20

    assert "was forked from the one that started the producer" in django.do("python forked.py")
    forks = [b"of the child", b"of the parent", b"of the parent again"]
    assert sorted(django.values("forks", 3)) == forks


# A job in Airflow or Dagster

SENSOR = """
import dagster as dg
from orders_assets import definitions, new_orders

with dg.DagsterInstance.ephemeral() as instance:
    cursor = None
    for _ in range(2):
        context = dg.build_sensor_context(instance=instance, cursor=cursor)
        request = new_orders(context)
        cursor = context.cursor
        if isinstance(request, dg.RunRequest):
            job = definitions.resolve_job_def("load_orders")
            for _ in range(2):  # a run that is tried again
                done = job.execute_in_process(run_config=request.run_config, instance=instance)
                assert done.success
        print(type(request).__name__)
"""


def send_orders(reader: Reader, count: int) -> None:
    with Producer(bootstrap_servers=reader.broker.bootstrap_servers) as producer:
        for number in range(count):
            producer.send("orders", b"%d" % number, key=b"%d" % number)


def loaded(reader: Reader) -> int:
    with sqlite3.connect(reader.folder / "orders.db") as target:
        (count,) = target.execute("SELECT count(*) FROM orders").fetchone()
    return int(count)


def test_a_batch_and_a_job_in_dagster(wheels: Path, tmp_path: Path) -> None:
    with reader_of("airflow-dagster.md", tmp_path) as reader:
        reader.install(wheels, "dagster", dagster="1.13.29")
        reader.write("orders_batch.py", "orders_assets.py")
        reader.environment |= {"TARGET": str(reader.folder / "orders.db")}
        send_orders(reader, 20)
        assert "loaded 20" in reader.do_line("python orders_batch.py")
        with (
            Producer(
                bootstrap_servers=reader.broker.bootstrap_servers, transactional_id="shop"
            ) as producer,
            producer.transaction(),
        ):
            for number in range(10):
                producer.send("orders", b"more", partition=number % 2)
        assert "loaded 10" in reader.do_line("python orders_batch.py")
        assert "loaded 0" in reader.do_line("python orders_batch.py")

        send_orders(reader, 20)
        (reader.folder / "sensor.py").write_text(SENSOR)
        told = reader.do("python -W ignore sensor.py").splitlines()
        assert [each for each in told if each in ("RunRequest", "SkipReason")] == [
            *("RunRequest", "SkipReason")
        ]
        assert loaded(reader) == 50
        assert "lag 0" in reader.do("moldau group describe orders-batch -b $BOOTSTRAP")


@pytest.mark.soak
def test_a_dag_in_airflow(wheels: Path, tmp_path: Path) -> None:
    """Soak: more than a hundred packages that nothing pins here, and a minute to import them. What
    its tasks call runs in the test of Dagster too."""
    with reader_of("airflow-dagster.md", tmp_path) as reader:
        reader.install(wheels, "apache-airflow", **{"apache-airflow": "3.3.2"})
        reader.write("orders_batch.py", "new_records.py", "dags/orders.py")
        (reader.folder / "plugins").mkdir()
        reader.environment |= {
            "TARGET": str(reader.folder / "orders.db"),
            "AIRFLOW_HOME": str(reader.folder),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        }
        send_orders(reader, 20)
        reader.do("airflow db migrate")
        reader.do_line("cp orders_batch.py")
        reader.do_line("airflow dags test orders")
        assert loaded(reader) == 20
        assert "lag 0" in reader.do("moldau group describe orders-batch -b $BOOTSTRAP")
