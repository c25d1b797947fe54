"""Where the demo plays: a simulated host, one controller and two node processes, and what is seen of each."""

from __future__ import annotations

import subprocess
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from companion.demo.guest import Controller, Kubelet
from companion.demo.processes import driver
from harvester.kinds import HOTPLUG_POD_LABEL, HOTPLUG_POD_VALUE, INSTANCES, MACHINES
from kube.client import Selector
from kube.objects import items, name_of, text
from kube.resources import CLAIMS, PODS, VOLUME_ATTACHMENTS, VOLUMES
from sim.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from companion.demo.processes import Driver
    from kube.client import Client

NODES = 2


@dataclass(frozen=True, slots=True)
class GuestNode:
    """One machine of the guest cluster: its name, its view of the kernel, its kubelet."""

    name: str
    root: Path
    kubelet: Kubelet

    def disks(self) -> list[str]:
        """Return the names of the disks that the machine's kernel shows now."""
        return sorted(path.name for path in (self.root / "sys" / "block").iterdir())


@dataclass(frozen=True, slots=True)
class Host:
    """What the platform team would see on the host."""

    client: Client
    namespace: str

    def claim_phase(self, volume: str) -> str:
        """Return the phase of the claim, as its status says."""
        return text(self.client.get(CLAIMS, volume, self.namespace), "status", "phase")

    def disk_state(self, machine: str, volume: str) -> tuple[str, str]:
        """Return phase and target of a hot-plugged volume in the machine; ("", "") when it is not there."""
        instance = self.client.get(INSTANCES, machine, self.namespace)
        for status in items(instance, "status", "volumeStatus"):
            if text(status, "name") == volume:
                return text(status, "phase"), text(status, "target")
        return "", ""

    def objects(self) -> set[str]:
        """Name every object on the host that a guest volume's life touches."""
        hotplugged = Selector(labels=f"{HOTPLUG_POD_LABEL}={HOTPLUG_POD_VALUE}")
        found = {f"claim {name_of(claim)}" for claim in self.client.list(CLAIMS, self.namespace).items}
        found |= {f"volume {name_of(volume)}" for volume in self.client.list(VOLUMES).items}
        found |= {f"attachment {name_of(item)}" for item in self.client.list(VOLUME_ATTACHMENTS).items}
        found |= {f"pod {name_of(pod)}" for pod in self.client.list(PODS, self.namespace, hotplugged).items}
        for machine in self.client.list(MACHINES, self.namespace).items:
            volumes = items(machine, "spec", "template", "spec", "volumes")
            found |= {f"{name_of(machine)} lists {text(v, 'name')}" for v in volumes if is_hotplugged(v)}
        return found


def is_hotplugged(volume: dict[str, object]) -> bool:
    """Tell whether a volume of a machine's template was hot-plugged."""
    claim = volume.get("persistentVolumeClaim")
    return isinstance(claim, dict) and claim.get("hotpluggable") is True


@dataclass(frozen=True, slots=True)
class Stage:
    """All that the story needs."""

    directory: Path
    host: Host
    controller: Controller
    nodes: tuple[GuestNode, ...]
    before: frozenset[str]
    """The host's objects before the story began."""


@contextmanager
def opened(directory: Path, *, loops: bool) -> Iterator[Stage]:
    """Start everything under `directory`, disks as loop devices or plain files; end all of it afterwards."""
    with ExitStack() as stack:
        simulation = stack.enter_context(Simulation(directory / "host", nodes=NODES, disks=loops))
        stack.callback(unmount_below, directory)  # after the drivers, before the host lets go of its disks
        kubeconfig = str(directory / "host" / "guest-role.kubeconfig")
        controller = stack.enter_context(
            driver(
                directory,
                "controller",
                ["--mode=controller", "--kubeconfig", kubeconfig, "--cluster-id=demo"],
            )
        )
        nodes = tuple(
            GuestNode(
                name, root, Kubelet(stack.enter_context(node_driver(directory, name, root)), directory / name)
            )
            for name, root in ((name, simulation.node_root(name)) for name in simulation.machines[:NODES])
        )
        host = Host(simulation.admin, simulation.namespace)
        yield Stage(directory, host, Controller(controller), nodes, frozenset(host.objects()))


def unmount_below(directory: Path) -> None:
    """Unmount what a story that did not come to its end left mounted, the last mount first."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    for path in reversed([line.split()[4] for line in lines]):
        if Path(path).is_relative_to(directory):
            subprocess.run(["umount", "--lazy", "--", path], check=False, capture_output=True)


def node_driver(directory: Path, name: str, root: Path) -> AbstractContextManager[Driver]:
    """Start the node half of one machine; it is given no host credential."""
    return driver(directory, name, ["--mode=node", "--nodeid", name, "--root", str(root)])
