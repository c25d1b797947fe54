"""Names: which host claim belongs to a CreateVolume request. Pure.

The trap: volumes made by upstream have the request's name as their id, for ever; and a name that is no legal
object name must still give the same claim each time it is asked for.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from csi.model import VolumeId

LABEL_LENGTH: Final = 63
"""KubeVirt takes a disk name only if it is a DNS-1123 label, and our disks are named after their claims."""
_OBJECT_NAME_LENGTH: Final = 253
_HASH_LENGTH: Final = 12

_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_OBJECT_NAME: Final = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*", re.ASCII)
_ILLEGAL: Final = re.compile(r"[^a-z0-9]+", re.ASCII)


def is_label(name: str) -> bool:
    """Tell whether a name is a DNS-1123 label: at most 63 of a-z, 0-9 and inner dashes."""
    return len(name) <= LABEL_LENGTH and _LABEL.fullmatch(name) is not None


def is_object_name(name: str) -> bool:
    """Tell whether a Kubernetes object can bear the name; if not, none of that name exists."""
    return len(name) <= _OBJECT_NAME_LENGTH and _OBJECT_NAME.fullmatch(name) is not None


def volume_id_for(request: str) -> VolumeId:
    """Return the volume id of a request name: the name itself if it is a label, else a prefix and a hash.

    Two requests may meet in one id only if somebody asks for the hashed form on purpose: the claim's mark
    tells them apart.
    """
    if is_label(request):
        return VolumeId(request)
    digest = sha256(request.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    room = LABEL_LENGTH - _HASH_LENGTH - 1
    prefix = _ILLEGAL.sub("-", request.lower()).strip("-")[:room].rstrip("-") or "volume"
    return VolumeId(f"{prefix}-{digest}")
