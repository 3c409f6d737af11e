"""A Kerberos realm of its own: a key distribution center in a folder, on a port of its own.

    with realm(folder) as at:
        keytab = at.keytab("alice")
        at.use(monkeypatch)       # this process is in the realm

Where MIT's programs or the package gssapi are missing, the test skips with the reason.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from moldau.runtime.node_processes import free_ports

REALM: Final = "TEST.MOLDAU"
PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
START_SECONDS: Final = 30.0
_PATHS: Final = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
_CLIENT: Final = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_realm = false
  dns_lookup_kdc = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
"""
_SERVER: Final = """\
[kdcdefaults]
  kdc_listen = 127.0.0.1:{port}
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {folder}/principal
    key_stash_file = {folder}/stash
    acl_file = {folder}/acl
    max_life = 2d
  }}
[logging]
  kdc = FILE:{folder}/kdc.log
"""


def program(name: str) -> str:
    """The path of a program of MIT's Kerberos, or a skipped test."""
    found = shutil.which(name, path=_PATHS)
    if found is None:
        pytest.skip(f"{name} is not installed (Debian: krb5-kdc krb5-admin-server krb5-user)")
    return found


class Realm:
    """A realm with a running center."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port

    @property
    def config(self) -> Path:
        return self.folder / "krb5.conf"

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process in the realm has."""
        return {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.folder}/tickets",
            "KRB5RCACHEDIR": str(self.folder),
        }

    def use(self, patch: pytest.MonkeyPatch) -> None:
        """Put this process into the realm."""
        for name, value in self.environment.items():
            patch.setenv(name, value)

    def run(self, name: str, *arguments: str, text: str = "") -> str:
        done = subprocess.run(  # noqa: S603 - a program of Kerberos, with arguments of the test
            [program(name), *arguments],
            input=text,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        return done.stdout

    def keytab(self, *principals: str, file: str = "") -> str:
        """A key table with new keys of these principals, which are made if they do not exist."""
        path = self.folder / (file or f"{principals[0].replace('/', '-')}.keytab")
        queries = [f"addprinc -randkey {each}\nktadd -k {path} {each}\n" for each in principals]
        self.run("kadmin.local", "-r", REALM, text="".join(queries))
        assert path.exists()
        return str(path)

    def tickets(
        self, keytab: str, principal: str, *, clock_ahead_s: int = 0, server: str | None = None
    ) -> str:
        """A cache with a ticket, for others or for one server, of a client with a fast clock:
        the file says by how much."""
        path = self.folder / f"cache-{principal}-{clock_ahead_s}-{server is None}"
        words = () if server is None else ("-S", server)
        self.run("kinit", "-k", "-t", keytab, "-c", str(path), "-l", "1d", *words, principal)
        data = bytearray(path.read_bytes())
        assert data[:8] == bytes.fromhex("0504000c00010008"), "a cache of version 4 with an offset"
        data[8:12] = clock_ahead_s.to_bytes(4, "big", signed=True)
        path.write_bytes(data)
        return str(path)


def service(host: str = "localhost", name: str = "kafka") -> str:
    return f"{name}/{host}@{REALM}"


@contextmanager
def realm(folder: Path) -> Iterator[Realm]:
    """Run a key distribution center. It ends with the block."""
    pytest.importorskip("gssapi", exc_type=ImportError)
    programs = {each: program(each) for each in PROGRAMS}
    folder.mkdir(exist_ok=True)
    (port,) = free_ports(1)
    at = Realm(folder, port)
    values = {"realm": REALM, "port": port, "folder": folder}
    at.config.write_text(_CLIENT.format(**values))
    (folder / "kdc.conf").write_text(_SERVER.format(**values))
    (folder / "acl").touch()
    at.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master-of-the-tests")
    with subprocess.Popen(  # noqa: S603 - the program that was found
        [programs["krb5kdc"], "-n", "-r", REALM],
        env={**os.environ, **at.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            _await_port(port, process)
            yield at
        finally:
            process.terminate()


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        assert process.poll() is None, "krb5kdc ended"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
    raise AssertionError("krb5kdc does not listen")
