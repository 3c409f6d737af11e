"""Asks AWS's own signer for tokens, and writes msk_tokens.json.

pip install aws-msk-iam-sasl-signer-python && python -m tests.link.msk_tokens
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from unittest import mock

KEPT: Final = Path(__file__).parent / "msk_tokens.json"
CASES: Final = (
    (1_790_000_000_000, "us-east-1", ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", None)),
    (1_790_000_000_999, "eu-central-1", ("ASIAEXAMPLE", "secret/with+signs=", "IQoJ//+/==" * 5)),
    (1_700_000_123_456, "ap-southeast-2", ("A", "b", "c")),
    (1_830_297_599_000, "us-gov-west-1", ("AKID EXAMPLE", "s p a c e", "t o/k+e=n&")),
    (1_772_323_200_000, "eu-west-3", ("AKID~-._", "\u00fcml\u00e4ut", "x" * 300)),
)


def ask(now_ms: int, region: str, keys: tuple[str, str, str | None]) -> str:
    """The signed URL, without the part of the program that made it."""
    import botocore.auth
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    from botocore.credentials import CredentialProvider, Credentials

    class Given(CredentialProvider):  # type: ignore[misc]
        def load(self) -> Any:
            return Credentials(*keys)

    time = datetime.fromtimestamp(now_ms // 1000, UTC).replace(tzinfo=None)
    with mock.patch.object(botocore.auth, "get_current_datetime", return_value=time):
        token, _ = MSKAuthTokenProvider.generate_auth_token_from_credentials_provider(
            region, Given()
        )
    url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    return url.partition("&User-Agent=")[0]


if __name__ == "__main__":
    answers = [
        {"now_ms": now_ms, "region": region, "keys": keys, "url": ask(now_ms, region, keys)}
        for now_ms, region, keys in CASES
    ]
    KEPT.write_text(json.dumps(answers, indent=1) + "\n", encoding="ascii")
