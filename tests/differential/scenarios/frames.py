"""Unknown APIs and versions, cut and odd frames: what is answered, and what ends a connection?"""

from __future__ import annotations

from struct import pack

from moldau.protocol.messages.api_versions import ApiVersionsRequest
from tests.differential.talk import Talk

API_VERSIONS, METADATA, PRODUCE, FETCH = 18, 3, 0, 1
NEWEST_BODY = ApiVersionsRequest(client_software_name="x", client_software_version="1").encode(3)


def frame(key: int, version: int, body: bytes = b"", client: bytes = b"\x00\x01c") -> bytes:
    """A request of any key and version."""
    return pack(">hhi", key, version, 7) + client + body


async def scenario(talk: Talk) -> None:
    for version in (6, 99, 32767, -1):
        asked = frame(API_VERSIONS, version, b"\x00" + bytes(NEWEST_BODY))
        await talk.send_frame(f"ApiVersions {version}", asked, API_VERSIONS, 0)
    await talk.send_frame("ApiVersions 0", frame(API_VERSIONS, 0), API_VERSIONS, 0)
    no_client = frame(API_VERSIONS, 0, client=b"\xff\xff")
    await talk.send_frame("no client id", no_client, API_VERSIONS, 0)
    for label, odd in {
        "an unknown API": frame(999, 0),
        "a negative API": frame(-1, 0),
        "an API of old": frame(4, 0),
        "Metadata 14": frame(METADATA, 14, b"\x00\x00"),
        "Metadata -1": frame(METADATA, -1),
        "Produce 2": frame(PRODUCE, 2, bytes(8)),
        "Fetch 3": frame(FETCH, 3, bytes(20)),
        "an empty frame": b"",
        "half a header": b"\x00\x03\x00",
        "a body cut short": frame(METADATA, 1, b"\x00\x00\x00\x05\x00\x01t"),
        "a count too high": frame(METADATA, 1, b"\x7f\xff\xff\xff"),
        "bytes that are no text": frame(METADATA, 1, b"\x00\x00\x00\x01\x00\x02\xff\xfe"),
    }.items():
        await talk.send_frame(label, odd, METADATA, 1)
