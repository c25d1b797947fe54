"""The words of a KubeVirt host: phases, reasons, labels.

Written here on our own, though `harvester` knows some of them too: else our reading of them would be tested
with itself.
"""

from __future__ import annotations

from typing import Final

from kube.resources import Resource

MIGRATIONS: Final = Resource(
    "kubevirt.io", "v1", "virtualmachineinstancemigrations", "VirtualMachineInstanceMigration"
)

# Phases of a hot-plugged volume, virtualmachineinstance.status.volumeStatus[].phase.
PENDING: Final = "Pending"
BOUND: Final = "Bound"
ATTACHED_TO_NODE: Final = "AttachedToNode"
MOUNTED_TO_POD: Final = "MountedToPod"
READY: Final = "Ready"
DETACHING: Final = "Detaching"
UNMOUNTED_FROM_POD: Final = "UnMountedFromPod"

# Phases of an instance.
SCHEDULING: Final = "Scheduling"
SCHEDULED: Final = "Scheduled"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
FINAL: Final = frozenset({SUCCEEDED, FAILED})

# Reasons.
PVC_NOT_READY: Final = "PVCNotReady"
PVC_NOT_FOUND: Final = "FailedPvcNotFound"
CREATED_POD: Final = "SuccessfulCreate"
DELETED_POD: Final = "SuccessfulDelete"
MOUNTED: Final = "VolumeMountedToPod"
UNMOUNTED: Final = "VolumeUnMountedFromPod"
VOLUME_READY: Final = "VolumeReady"
HOTPLUG_ERROR: Final = "HotPlugVolumeError"

# Labels and finalizers.
APP: Final = "kubevirt.io"
LAUNCHER: Final = "virt-launcher"
HOTPLUG: Final = "hotplug-disk"
MACHINE_NAME: Final = "vm.kubevirt.io/name"
MIGRATION_UID: Final = "kubevirt.io/migrationJobUID"
INSTANCE_FINALIZER: Final = "foregroundDeleteVirtualMachine"
MACHINE_FINALIZER: Final = "kubevirt.io/virtualMachineControllerFinalize"
PVC_PROTECTION: Final = "kubernetes.io/pvc-protection"
PV_PROTECTION: Final = "kubernetes.io/pv-protection"
REMOVED_CLAIMS: Final = "harvesterhci.io/removedPersistentVolumeClaims"
"""Annotation of a machine: claims (comma list) that are deleted with it."""

HARVESTER_SYSTEM: Final = "harvester-system"
LONGHORN_SYSTEM: Final = "longhorn-system"
