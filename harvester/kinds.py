"""The kinds, keys and words of a Harvester host's API that we use. Each stands here once."""

from __future__ import annotations

from typing import Final

from kube.resources import Resource

MACHINES: Final = Resource("kubevirt.io", "v1", "virtualmachines", "VirtualMachine")
INSTANCES: Final = Resource("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance")
SETTINGS: Final = Resource("harvesterhci.io", "v1beta1", "settings", "Setting", namespaced=False)
LONGHORN_VOLUMES: Final = Resource("longhorn.io", "v1beta2", "volumes", "Volume")

LONGHORN: Final = "driver.longhorn.io"
"""Provisioner of Longhorn storage classes; a host VolumeAttachment's attacher too."""
LVM: Final = "lvm.driver.harvesterhci.io"
"""Provisioner of Harvester's LVM storage classes: Block, ReadWriteOnce only."""
MIGRATABLE: Final = "migratable"
"""Longhorn storage class parameter, "true" or "false": counts only with ReadWriteMany and Block."""
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"

HOTPLUG_POD_LABEL: Final = "kubevirt.io"
HOTPLUG_POD_VALUE: Final = "hotplug-disk"
HOTPLUG_POD_PREFIX: Final = "hp-volume-"
LAUNCHER_POD_VALUE: Final = "virt-launcher"

GUEST_CLUSTER_LABEL: Final = "guestcluster.harvesterhci.io/name"
GOLDEN_IMAGE: Final = "harvesterhci.io/goldenImage"
DISK_FILE: Final = "harvesterhci.io/volumeForVirtualMachine"
"""Annotation "true" on a Filesystem claim: Harvester up to 1.7 puts a disk image onto it; later no effect."""
