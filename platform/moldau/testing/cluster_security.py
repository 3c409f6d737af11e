"""The security of a cluster on this machine: certificates, listeners, the first user, client files.

Clients log in by SCRAM over TLS. Brokers and controllers show each other certificates (mTLS), so no
password is among the settings or arguments of a node. The first user is added when the nodes are
up, by the certificate of a node, which is a super user like the first user.

Invariants: files are made once and kept; only their owner may read them; no password is printed.
"""

from __future__ import annotations

from base64 import b32encode
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.config.properties import format_properties
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.certificates import IssuedCertificate, check_library, issue, make_authority
from moldau.link.login.jaas import LoginModule, write_jaas
from moldau.runtime.places import make_private_directory, write_private_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moldau.runtime import Runtime

CLIENTS: Final = "SASL_SSL"
"""The name of the listener for clients."""
BROKERS: Final = "BROKER"
"""The name of the listener between brokers."""
MECHANISM: Final = "SCRAM-SHA-512"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_PASSWORD_BYTES: Final = 20
_KEY_BYTES: Final = 40
_KEY: Final = "key"
_FILE_PROVIDER: Final = "org.apache.kafka.common.config.provider.FileConfigProvider"
_KNOWN_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.1


class ClusterSecurity(NamedTuple):
    """The files of a secured cluster in `folder`, and what its nodes are told."""

    runtime: Runtime
    folder: str
    admin: str = "admin"

    @property
    def client_path(self) -> str:
        """The settings of the admin, for moldau, Python and Java."""
        return f"{self.folder}/{self.admin}.properties"

    def prepare(self, node_ids: Iterable[int], bootstrap: str, host: str | None) -> None:
        """Write the files that are missing. `host` is the name that clients connect to, if it is
        not this machine's local one. Raise ConfigError without the library for certificates."""
        check_library()
        make_private_directory(self.folder)
        hosts = tuple(dict.fromkeys((host or "localhost", "localhost", "127.0.0.1", "::1")))
        if not self.runtime.files.exists(self._token_key_path):
            key = b32encode(self.runtime.random.randbytes(_KEY_BYTES)).decode().lower()
            write_private_text(self._token_key_path, f"{_KEY}={key}\n")
        now_ms = self.runtime.clock.wall_ms()
        paths = {each: self._certificate_path(each) for each in node_ids}
        missing = {each: at for each, at in paths.items() if not self.runtime.files.exists(at)}
        if missing:  # otherwise the authority's key may be elsewhere
            authority = self._authority()
            for each, path in missing.items():
                issued = issue(authority, f"node-{each}", hosts, now_ms)
                write_private_text(path, issued.key + issued.certificate)
        if self.runtime.files.exists(self.client_path):
            return
        password = b32encode(self.runtime.random.randbytes(_PASSWORD_BYTES)).decode().lower()
        shared = {"bootstrap.servers": bootstrap, "security.protocol": "SASL_SSL"}
        shared["sasl.mechanism"] = MECHANISM
        of_librdkafka = {
            **shared,
            "sasl.username": self.admin,
            "sasl.password": password,
            "ssl.ca.location": f"{self.folder}/ca.pem",
        }
        login = LoginModule("SCRAM", {"username": self.admin, "password": password})
        of_java = {
            **shared,
            "sasl.jaas.config": write_jaas(login),
            **_trust(self.folder),
        }
        lines = "".join(f"{name}={value}\n" for name, value in of_librdkafka.items())
        write_private_text(f"{self.folder}/kcat.conf", lines)  # it reads no escapes
        comments = (f"The settings of {self.admin}: keep them private.",)
        write_private_text(self.client_path, format_properties(of_java, comments))

    def _authority(self) -> IssuedCertificate:
        files, folder = self.runtime.files, self.folder
        apart, certificate = f"{folder}/authority", f"{folder}/ca.pem"
        key = f"{apart}/authority.key"
        if files.exists(certificate):
            if not files.exists(key):
                key = f"{folder}/authority.key"  # of an earlier version
            return IssuedCertificate(files.read_text(key), files.read_text(certificate))
        made = make_authority("moldau authority", self.runtime.clock.wall_ms())
        make_private_directory(apart)
        write_private_text(key, made.key)
        write_private_text(f"{apart}/ca.pem", made.certificate)
        write_private_text(certificate, made.certificate)
        return made

    @property
    def _token_key_path(self) -> str:
        """The key of delegation tokens, which all nodes read."""
        return f"{self.folder}/token-key.properties"

    def _certificate_path(self, node_id: int) -> str:
        return f"{self.folder}/node-{node_id}.pem"

    def settings_of(self, node_id: int, node_ids: Iterable[int]) -> dict[str, str]:
        """Return the settings of a node that encrypt, ask for logins, and turn on access rules."""
        supers = [f"User:{self.admin}", *(f"User:CN=node-{each}" for each in node_ids)]
        return {
            "listener.security.protocol.map": f"{CLIENTS}:SASL_SSL,{BROKERS}:SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": BROKERS,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._certificate_path(node_id),
            **_trust(self.folder),
            f"listener.name.{BROKERS.lower()}.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": f"SCRAM-SHA-256,{MECHANISM}",
            "authorizer.class.name": _AUTHORIZER,
            "super.users": ";".join(supers),
            "config.providers": "file",
            "config.providers.file.class": _FILE_PROVIDER,
            "delegation.token.secret.key": f"${{file:{self._token_key_path}:{_KEY}}}",
        }

    def node_client(self, node_id: int, bootstrap: str) -> dict[str, str]:
        """Return the settings of a client that shows the certificate of a node."""
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._certificate_path(node_id),
            **_trust(self.folder),
        }

    def client(self) -> dict[str, str]:
        """Return the settings of the admin."""
        from moldau.client.base.file import load_settings

        return load_settings(self.client_path)

    def add_admin(self, node_id: int, inner: str) -> bool:
        """Add the first user, unless the cluster has it; return whether it is new. `inner` are the
        listeners between brokers."""
        from moldau.client import Admin
        from moldau.client.admin.security import SecurityAdmin
        from moldau.link.login.jaas import parse_jaas
        from moldau.protocol.scram import SCRAM_MECHANISMS
        from moldau.runtime.threaded import ThreadedRuntime

        password = parse_jaas(self.client()["sasl.jaas.config"]).options["password"]

        async def add(runtime: Runtime) -> bool:
            async with Admin(self.node_client(node_id, inner), runtime=runtime) as client:
                security = SecurityAdmin(client)
                if any(each.name == self.admin for each in await security.describe_users()):
                    return False
                for mechanism in SCRAM_MECHANISMS.values():
                    await security.set_password(self.admin, password, mechanism=mechanism)
                return True

        with ThreadedRuntime("cluster") as threaded:
            return threaded.run(add)

    def await_login(self, address: str) -> None:
        """Wait until a broker lets the first user log in: it learns of users a moment later than
        the controller."""
        from moldau.client.sync import Admin
        from moldau.runtime.node_processes import monotonic_s, pause_s

        until_s = monotonic_s() + _KNOWN_SECONDS
        while True:
            try:
                with Admin({**self.client(), "bootstrap.servers": address}):
                    return
            except KafkaError as error:
                is_unknown = error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
                if not is_unknown or monotonic_s() > until_s:
                    raise
            pause_s(_LOOK_SECONDS)


def _trust(folder: str) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": f"{folder}/ca.pem"}
