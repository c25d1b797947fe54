"""What every request must satisfy before it is looked at. Pure; each function raises InvalidArgument.

Fields are demanded in the order of the spec: id, path, capability. Only required fields are demanded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from csi._pb.csi_pb2 import VolumeCapability
from csi.errors import InvalidArgument

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message

MAX_STRING: Final = 128
"""Bytes; CSI spec, "Size Limits"."""
MAX_NODE_ID: Final = 256
"""Bytes; CSI spec, NodeGetInfoResponse."""
MAX_PATH: Final = 4095
"""Bytes: PATH_MAX without its NUL; paths override the general limit (CSI spec, NodePublishVolumeRequest)."""
MAX_MAP: Final = 4096
"""Bytes of all keys and values of a map, or of all `mount_flags`."""


def demand(field: str, value: object) -> None:
    """Demand that a required field is set."""
    if not value:
        raise InvalidArgument(f"{field} is required and missing")


def check_sizes(message: Message) -> None:
    """Hold every field of the message to the spec's size limits: too large is refused, never cut."""
    for field, value in message.ListFields():
        parts = value if field.is_repeated else (value,)
        if field.message_type is None:
            if field.type == field.TYPE_STRING:
                _check(field.name, sum(map(_bytes, parts)), _limit(field))
        elif field.message_type.GetOptions().map_entry:
            _check(field.name, sum(_bytes(key) + _bytes(text) for key, text in value.items()), MAX_MAP)
        else:
            for part in parts:
                check_sizes(part)


def check_capability(capability: VolumeCapability) -> None:
    """Demand an access type and a known access mode."""
    if capability.WhichOneof("access_type") is None:
        raise InvalidArgument("volume_capability: neither block nor mount is set")
    if capability.access_mode.mode not in VolumeCapability.AccessMode.Mode.values():
        raise InvalidArgument(f"volume_capability: access mode {capability.access_mode.mode} is not known")
    if capability.access_mode.mode == VolumeCapability.AccessMode.UNKNOWN:
        raise InvalidArgument("volume_capability: access_mode is required and missing")


def check_servable(capability: VolumeCapability) -> None:
    """Demand a capability that is well formed and lets one node at a time use the volume."""
    check_capability(capability)
    mode = VolumeCapability.AccessMode.Mode.Name(capability.access_mode.mode)
    if mode.startswith("MULTI_NODE"):
        raise InvalidArgument(
            f"access mode {mode} is not served: a volume is on one node at a time; ask for ReadWriteOnce"
        )


def _check(name: str, size: int, limit: int) -> None:
    if size > limit:
        raise InvalidArgument(f"{name} has {size} bytes, at most {limit} are allowed")


def _limit(field: FieldDescriptor) -> int:
    if field.is_repeated:
        return MAX_MAP
    if field.name == "node_id":
        return MAX_NODE_ID
    return MAX_PATH if field.name.endswith("_path") else MAX_STRING


def _bytes(text: str) -> int:
    return len(text.encode())
