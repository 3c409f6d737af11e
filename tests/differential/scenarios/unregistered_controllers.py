"""UnregisterController, and features that cannot be lowered because of it (Kafka 4.4).

What becomes of one that runs and is not active: tests/broker/cluster/test_voters.py.
"""

from __future__ import annotations

from moldau.protocol.messages.unregister_controller import UnregisterControllerRequest
from moldau.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.differential.talk import Talk, versions

_UPGRADE, _SAFE, _UNSAFE = 1, 2, 3
_METADATA = "metadata.version"


def lowered(level: int, kind: int, *more: FeatureUpdateKey) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature=_METADATA, max_version_level=level, upgrade_type=kind)
    return UpdateFeaturesRequest(
        timeout_ms=5000, feature_updates=[update, *more], validate_only=False
    )


async def scenario(talk: Talk) -> None:
    for label, controller_id in {
        "a controller that there is not": 9,
        "a negative controller": -1,
        "the largest id": 2**31 - 1,
        "the active controller": 1,
    }.items():
        request = UnregisterControllerRequest(controller_id=controller_id)
        await talk.ask(label, request, versions(UnregisterControllerRequest))
    for level in (34, 33, 32, 31, 30, 29):
        for kind in (_UPGRADE, _SAFE, _UNSAFE):
            update = lowered(level, kind)
            await talk.ask(f"level {level} by {kind}", update, versions(UpdateFeaturesRequest, 1))
    share = FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=_SAFE)
    both = lowered(30, _SAFE, share)
    await talk.ask("share.version with a level too low", both, 2)
