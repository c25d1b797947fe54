"""The bits of a guest cluster around the driver: what its sidecars and kubelets call, in their order."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from csi._pb import csi_pb2, csi_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from companion.demo.processes import Driver

GIB = 1 << 30
CALL_LIMIT = 60.0
"""Seconds a call may take; the sidecars give 110."""


class CallFailed(Exception):
    """The driver answered with an error; code and words as the user's event would show them."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(f"{code}: {words}")
        self.code = code
        self.words = words


def capability(*, block: bool = False) -> csi_pb2.VolumeCapability:
    """Return a ReadWriteOnce capability, raw block or ext4."""
    mode = csi_pb2.VolumeCapability.AccessMode(mode=csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER)
    if block:
        return csi_pb2.VolumeCapability(access_mode=mode, block=csi_pb2.VolumeCapability.BlockVolume())
    mount = csi_pb2.VolumeCapability.MountVolume(fs_type="ext4")
    return csi_pb2.VolumeCapability(access_mode=mode, mount=mount)


@dataclass(frozen=True, slots=True)
class Claim:
    """A guest PVC as its sidecars know it."""

    volume: str
    block: bool


class Controller:
    """What external-provisioner and external-attacher ask."""

    def __init__(self, driver: Driver) -> None:
        self._stub = csi_pb2_grpc.ControllerStub(driver.channel)

    def create(
        self, name: str, *, size: int = GIB, block: bool = False, parameters: Mapping[str, str] | None = None
    ) -> Claim:
        """Provision a claim of `size` bytes."""
        request = csi_pb2.CreateVolumeRequest(
            name=name,
            capacity_range=csi_pb2.CapacityRange(required_bytes=size),
            volume_capabilities=[capability(block=block)],
            parameters=parameters or {},
        )
        with told():
            answer = self._stub.CreateVolume(request, timeout=CALL_LIMIT)
        return Claim(answer.volume.volume_id, block)

    def attach(self, claim: Claim, node: str) -> dict[str, str]:
        """Attach the claim to the node; return the publish context."""
        request = csi_pb2.ControllerPublishVolumeRequest(
            volume_id=claim.volume, node_id=node, volume_capability=capability(block=claim.block)
        )
        with told():
            answer = self._stub.ControllerPublishVolume(request, timeout=CALL_LIMIT)
        return dict(answer.publish_context)

    def detach(self, claim: Claim, node: str) -> None:
        """Detach the claim from the node."""
        request = csi_pb2.ControllerUnpublishVolumeRequest(volume_id=claim.volume, node_id=node)
        with told():
            self._stub.ControllerUnpublishVolume(request, timeout=CALL_LIMIT)

    def delete(self, claim: Claim) -> None:
        """Delete the claim's volume."""
        with told():
            self._stub.DeleteVolume(csi_pb2.DeleteVolumeRequest(volume_id=claim.volume), timeout=CALL_LIMIT)


class Kubelet:
    """What a node's kubelet asks. `directory` is where its staging and target paths are."""

    def __init__(self, driver: Driver, directory: Path) -> None:
        self._stub = csi_pb2_grpc.NodeStub(driver.channel)
        self._directory = directory

    def mount(self, claim: Claim, context: Mapping[str, str]) -> Path:
        """Stage and publish; return the path that a pod would see."""
        staging, target = self._paths(claim)
        staging.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        with told():
            self._stub.NodeStageVolume(
                csi_pb2.NodeStageVolumeRequest(
                    volume_id=claim.volume,
                    publish_context=context,
                    staging_target_path=str(staging),
                    volume_capability=capability(block=claim.block),
                ),
                timeout=CALL_LIMIT,
            )
            self._stub.NodePublishVolume(
                csi_pb2.NodePublishVolumeRequest(
                    volume_id=claim.volume,
                    publish_context=context,
                    staging_target_path=str(staging),
                    target_path=str(target),
                    volume_capability=capability(block=claim.block),
                ),
                timeout=CALL_LIMIT,
            )
        return target

    def unmount(self, claim: Claim) -> None:
        """Unpublish and unstage."""
        staging, target = self._paths(claim)
        with told():
            self._stub.NodeUnpublishVolume(
                csi_pb2.NodeUnpublishVolumeRequest(volume_id=claim.volume, target_path=str(target)),
                timeout=CALL_LIMIT,
            )
            self._stub.NodeUnstageVolume(
                csi_pb2.NodeUnstageVolumeRequest(volume_id=claim.volume, staging_target_path=str(staging)),
                timeout=CALL_LIMIT,
            )

    def _paths(self, claim: Claim) -> tuple[Path, Path]:
        here = self._directory / claim.volume
        return here / "staging", here / "pod" / ("device" if claim.block else "mount")


@contextmanager
def told() -> Iterator[None]:
    """Turn the gRPC error of the call inside into CallFailed."""
    try:
        yield
    except grpc.RpcError as error:
        answer: object = error
        if isinstance(answer, grpc.Call):
            raise CallFailed(answer.code().name, answer.details() or "") from error
        raise
