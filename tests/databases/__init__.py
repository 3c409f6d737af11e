"""Databases to test with: SQLite and DuckDB always, PostgreSQL and MariaDB where there is a server.

    from tests.databases import database  # the fixture; tests run once for each database

A test that wants one kind marks itself: `@pytest.mark.databases("postgresql", "sqlite")`.
"""

from __future__ import annotations

from tests.databases.fixtures import database, mariadb_server, postgresql_server
from tests.databases.target import TestDatabase

__all__ = ["TestDatabase", "database", "mariadb_server", "postgresql_server"]
