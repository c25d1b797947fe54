"""Values of the CSI driver, shared by csi.rpc, csi.controller and csi.node."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NewType, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

DRIVER_NAME: Final = "driver.harvesterhci.io"

VolumeId = NewType("VolumeId", str)
"""Name of the host claim."""
NodeId = NewType("NodeId", str)
"""What NodeGetInfo returned: `--nodeid`, by default the VM's name."""


class AccessMode(Enum):
    """CSI access modes, by the names of csi.proto."""

    UNKNOWN = "UNKNOWN"
    SINGLE_NODE_WRITER = "SINGLE_NODE_WRITER"
    SINGLE_NODE_READER_ONLY = "SINGLE_NODE_READER_ONLY"
    SINGLE_NODE_SINGLE_WRITER = "SINGLE_NODE_SINGLE_WRITER"
    SINGLE_NODE_MULTI_WRITER = "SINGLE_NODE_MULTI_WRITER"
    MULTI_NODE_READER_ONLY = "MULTI_NODE_READER_ONLY"
    MULTI_NODE_SINGLE_WRITER = "MULTI_NODE_SINGLE_WRITER"
    MULTI_NODE_MULTI_WRITER = "MULTI_NODE_MULTI_WRITER"

    @property
    def multi_node(self) -> bool:
        """Whether the mode lets two nodes use the volume at once."""
        return self.name.startswith("MULTI_NODE")


@dataclass(frozen=True, slots=True)
class Capability:
    """One VolumeCapability. `block` means raw block; else `fs_type` ("" = the driver's choice) is mounted."""

    mode: AccessMode
    block: bool = False
    fs_type: str = ""
    mount_flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """CreateVolume. Sizes in bytes, 0 = not said."""

    name: str
    required: int
    limit: int
    capabilities: tuple[Capability, ...]
    parameters: Mapping[str, str] = field(default_factory=dict)
    has_source: bool = False


@dataclass(frozen=True, slots=True)
class Volume:
    """What CreateVolume answers. `capacity` in bytes is what the host really gives."""

    id: VolumeId
    capacity: int
    context: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """ControllerPublishVolume."""

    volume: VolumeId
    node: NodeId
    capability: Capability
    readonly: bool = False
    volume_context: Mapping[str, str] = field(default_factory=dict)


PublishContext: TypeAlias = "Mapping[str, str]"
"""What the controller tells the node. The keys are below; a context without `kind` was made by upstream."""

CONTEXT_KIND: Final = "kind"
"""`disk` (later also `nfs`)."""
CONTEXT_KIND_DISK: Final = "disk"
CONTEXT_IDENTITY: Final = "identity"
"""The SCSI device id (VPD page 0x83) to look for by equality: `drive-ua-<volume id>`."""
CONTEXT_SIZE: Final = "size"
"""Bytes, decimal: the disk must be at least as large before it is formatted."""
CONTEXT_FRESH_UNTIL: Final = "fresh-until"
"""RFC 3339 UTC: until then non-zero bytes without a signature may be formatted over.

Thick LVM hands out old bytes."""


def disk_identity(volume: VolumeId) -> str:
    """Return the device id of a hot-plugged scsi disk without serial: KubeVirt's alias of the disk name."""
    return f"drive-ua-{volume}"


@dataclass(frozen=True, slots=True)
class StageRequest:
    """NodeStageVolume. `path` is the staging directory."""

    volume: VolumeId
    path: str
    capability: Capability
    publish_context: Mapping[str, str]
    volume_context: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodePublishRequest:
    """NodePublishVolume. `staging_path` is "" when the caller sent none."""

    volume: VolumeId
    staging_path: str
    target_path: str
    capability: Capability
    readonly: bool
    publish_context: Mapping[str, str]
    volume_context: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """NodeGetInfo. `max_volumes` 0 means the driver sets no limit."""

    node: NodeId
    max_volumes: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """How much there is of something; `used` is what is not free, `available` what a plain user can have."""

    total: int
    used: int = 0
    available: int = 0


@dataclass(frozen=True, slots=True)
class VolumeStats:
    """NodeGetVolumeStats. None where nothing can be said; a raw block volume has a total of bytes only."""

    bytes: Usage | None = None
    inodes: Usage | None = None
    trouble: str = ""
    """What is wrong with the volume, for its owner; "" when nothing is known to be."""
