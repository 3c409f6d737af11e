"""One HTTP server in the house, so one door: nothing else accepts HTTP, and each use is walked.
One HTTP client: nothing else sends requests."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.allowed import Found
from tests.architecture.facts import each_file, finding
from tests.architecture.sources import ROOT, Source, product

HOME = "platform/moldau/runtime/http_server.py"
WALK = ROOT / "tests" / "e2e" / "doors.py"
_SERVERS = ("uvicorn", "hypercorn", "http.server", "wsgiref", "aiohttp.web", "socketserver")
_CLIENTS = (
    *("aiohttp", "h11", "http.client", "httpcore", "httpcore2", "httpx", "httpx2", "requests"),
    *("urllib.request", "urllib3"),
)
_CLIENT_HOME = "platform/moldau/runtime/http_client.py"
_WORDS = re.compile(
    r"uvicorn|hypercorn|http\.|wsgiref|aiohttp|socketserver|h11|import server|urllib|requests"
    r"|httpx|httpcore|import client"
)


@finding
def other_http(source: Source) -> Found:
    """Imports of HTTP servers and clients outside their homes."""
    if source.path == HOME or not _WORDS.search(source.text):
        return {}
    found = {}
    for node in ast.walk(source.tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        for name in names:
            if any(f"{name}.".startswith(f"{each}.") for each in _SERVERS):
                found[f"{source.path}: {name}"] = f"{HOME} is the only server"
            elif any(f"{name}.".startswith(f"{each}.") for each in _CLIENTS):
                found[f"{source.path}: {name}"] = f"{_CLIENT_HOME} is the only client"
    return found


@each_file
def uses(source: Source) -> str | None:
    """The path of a file that makes a server."""
    if source.path == HOME or "HttpServer(" not in source.text:
        return None
    calls = (each for each in ast.walk(source.tree) if isinstance(each, ast.Call))
    return source.path if any(_is_server(each.func) for each in calls) else None


def _is_server(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "HttpServer"


def test_there_is_one_http_server_and_one_http_client() -> None:
    assert other_http(product()) == {}


def test_each_server_is_among_those_whose_routes_are_walked() -> None:
    made = {path for path in uses(product()) if path is not None}
    text = WALK.read_text()
    walked = {path for path in made if "/".join(path.split("/")[-2:]) in text}
    assert made == walked, "start it in tests/e2e/doors.py"
    assert len(made) >= 6


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("import uvicorn", True),
        ("from http.server import HTTPServer", True),
        ("from http import server", True),
        ("import h11", True),
        ("from httpx import AsyncClient", True),
        ("import urllib.request", True),
        ("from http import client", True),
        ("from urllib.parse import quote", False),
        ("from moldau.runtime.http_server import HttpServer", False),
        ("import http.client", True),
    ],
)
def test_a_planted_server_or_client_is_found(text: str, is_found: bool) -> None:
    assert bool(other_http([Source("platform/moldau/x.py", f"{text}\n")])) is is_found
