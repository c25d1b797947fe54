"""Controllers, as in several processes, and what their tests do to one simulated host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from csi.controller.claims import HostClaims
from csi.controller.classes import HostClasses
from csi.controller.ownership import GuestCluster, Ownership
from csi.controller.volumes import Volumes
from csi.deadline import Deadline
from csi.model import DRIVER_NAME, VolumeId
from kube.client import JsonPatch, MergePatch
from kube.config import connect, from_kubeconfig
from kube.errors import NotFound
from kube.objects import version_of
from kube.resources import CLAIMS, VOLUMES
from sim.apiserver.faults import calls
from sim.apiserver.server import ApiServer
from tests.attach.bench import CLUSTER, PATIENCE, QUICK, QUICK_CALLS, Bench, engine
from tests.support.death import Death
from tests.volumes.shapes import MOUNT, request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from csi.controller.volumes import Holders
    from csi.model import Capability, CreateRequest, Volume
    from kube.objects import Object
    from kube.rest import Limits, RequestRecord, RestClient
    from sim.apiserver.faults import Matches
    from sim.simulation import Simulation
    from tests.attach.bench import Engine

SOON: Final = 0.3
"""Seconds for a call that is to run out of time."""
ELSEWHERE: Final = "cluster-2"


class Blind:
    """Sees no holder: what a controller sees of an attachment that comes just after its look."""

    def holder(self, volume: VolumeId) -> str | None:
        """Name nobody."""
        del volume
        return None


@dataclass
class GuestSide:
    """The guest cluster's API, with an administrator's rights."""

    server: ApiServer
    client: RestClient

    def has(self, name: str, handle: str, driver: str = DRIVER_NAME) -> None:
        """Make a PersistentVolume."""
        spec: Object = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": driver, "volumeHandle": handle},
        }
        kind: Object = {"apiVersion": VOLUMES.api_version, "kind": VOLUMES.kind}
        self.client.create(VOLUMES, {**kind, "metadata": {"name": name}, "spec": spec})


@dataclass
class Controller:
    """The controller half of one process."""

    volumes: Volumes
    engine: Engine

    def create(self, asked: CreateRequest, seconds: float = 10.0) -> Volume:
        """Call CreateVolume."""
        return self.volumes.create(asked, Deadline(seconds))

    def delete(self, volume: str, seconds: float = 10.0) -> None:
        """Call DeleteVolume."""
        self.volumes.delete(VolumeId(volume), Deadline(seconds))

    def validate(self, volume: str, *capabilities: Capability) -> str:
        """Call ValidateVolumeCapabilities."""
        return self.volumes.validate(VolumeId(volume), capabilities or (MOUNT,), Deadline(10.0))

    def close(self) -> None:
        """End the process."""
        self.engine.close()


class VolumeBench(Bench):
    """One host and the guest's controllers."""

    def __init__(self, simulation: Simulation, directory: Path) -> None:
        self._directory = directory
        self._kubeconfig = from_kubeconfig(directory / "guest-role.kubeconfig")
        super().__init__(simulation, lambda limits: connect(self._kubeconfig, limits=limits))

    def controller(
        self,
        *,
        guest: GuestSide | None = None,
        holders: Holders | None = None,
        cluster: str = CLUSTER,
        default_class: str = "",
        limits: Limits = QUICK_CALLS,
        on_request: Callable[[RequestRecord], None] | None = None,
    ) -> Controller:
        """Start one more process, with the guest's role."""
        client = connect(self._kubeconfig, limits=limits, on_request=on_request)
        self._stack.callback(client.close)
        attaching = engine(client, self.namespace, QUICK, 600.0, PATIENCE)
        self._stack.callback(attaching.close)
        volumes = Volumes(
            HostClaims(client, self.namespace),
            HostClasses(client),
            attaching.host,
            holders or attaching.attachments,
            Ownership(GuestCluster(guest.client) if guest else None, cluster),
            default_class=default_class,
        )
        return Controller(volumes, attaching)

    def made(self, name: str = "pvc-1") -> VolumeId:
        """Make a volume with a controller of its own."""
        maker = self.controller()
        volume = maker.create(request(name)).id
        maker.close()
        return volume

    def exists(self, name: str) -> bool:
        """Tell whether there is such a claim, going or not."""
        try:
            self.admin.get(CLAIMS, name, self.namespace)
        except NotFound:
            return False
        return True

    def version(self, name: str) -> str:
        """Return the version of the claim: it changes with every write."""
        return version_of(self.admin.get(CLAIMS, name, self.namespace))

    def hold(self, name: str, finalizer: str) -> None:
        """Let somebody else hold the claim when it is deleted."""
        operation: Object = {"op": "add", "path": "/metadata/finalizers/-", "value": finalizer}
        self.admin.patch(CLAIMS, name, JsonPatch([operation]), self.namespace)

    def release(self, name: str) -> None:
        """Let everybody go of the claim."""
        body = {"metadata": {"finalizers": None}}
        self.admin.patch(CLAIMS, name, MergePatch(body), self.namespace)

    def guest(self, on_request: Callable[[RequestRecord], None] | None = None) -> GuestSide:
        """Start the API of the guest cluster."""
        server = self._stack.enter_context(ApiServer())
        kubeconfig = self._directory / "guest-admin.kubeconfig"
        kubeconfig.write_text(server.admin_kubeconfig())
        client = connect(from_kubeconfig(kubeconfig), limits=QUICK_CALLS, on_request=on_request)
        self._stack.callback(client.close)
        return GuestSide(server, client)

    def annotate(self, name: str, key: str, value: str) -> None:
        """Write to the claim as others do."""
        body = {"metadata": {"annotations": {key: value}}}
        self.admin.patch(CLAIMS, name, MergePatch(body), self.namespace)

    def asked(self, verb: str = "") -> Matches:
        """Return a predicate for calls about claims by the controllers of this bench."""
        return calls(verb, CLAIMS, user=self.user)

    def writes(self) -> list[str]:
        """Return the verbs of the writes that the controllers have sent."""
        records = self.server.requests.all()
        return [r.call.verb for r in records if r.call.user.name == self.user and r.call.writes]

    def before(self, verb: str, do: Callable[[], None], times: int = 1) -> None:
        """Do something on the host just before it applies a controller's call about a claim."""
        matches, left = self.asked(verb), [None] * times

        def reached(moment: str, call: object) -> None:
            if moment == "before" and left and matches(call):  # type: ignore[arg-type] # the server's call
                left.pop()
                do()

        self.faults.at_crash_points(reached)

    def death(self, at: int) -> Death:
        """Let the controllers die at one of their next calls."""
        death = Death(self.user, at)
        self.faults.at_crash_points(death)
        return death
