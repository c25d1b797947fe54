"""A simulated Harvester host: its controllers, and what a test or an operator may do to it.

Everything goes through the API, with one client. The host's machines, disks and images are the only state
that is not in the API.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Final

from harvester.kinds import INSTANCES, MACHINES
from kube.client import MergePatch
from kube.informer import Informer
from kube.objects import text
from kube.resources import CLAIMS, PODS, STORAGE_CLASSES, VOLUME_ATTACHMENTS, VOLUMES
from kube.store import Key
from sim.host import shapes, words
from sim.host.attachments import AttachmentController
from sim.host.cache import INDEXERS, Cache
from sim.host.claims import ClaimController, VolumeController
from sim.host.controller import Controller
from sim.host.handler import HandlerController
from sim.host.hotplug import Hotplug
from sim.host.instances import InstanceController
from sim.host.kubelet import PodController
from sim.host.machines import MachineController
from sim.host.migrations import MigrationController
from sim.host.profile import INSTANT
from sim.host.routes import Routes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kube.client import Client
    from kube.objects import Object
    from kube.resources import Resource
    from kube.store import Change
    from sim.host.admission import Admission
    from sim.host.disks import GuestDisks, Images
    from sim.host.profile import Profile

WATCHED: Final = (
    MACHINES,
    INSTANCES,
    words.MIGRATIONS,
    PODS,
    CLAIMS,
    VOLUMES,
    VOLUME_ATTACHMENTS,
    STORAGE_CLASSES,
)
SYNC_LIMIT: Final = 20.0
"""Seconds until all informers must have listed once."""


class HostFailed(Exception):
    """The host did not come to the state that was waited for."""


class Host:
    """The controllers of one host over one API server, from `start` to `stop`.

    `namespace` is the guest's, in which the machines of the calls below are. `admission` judges by what this
    host has seen, whoever asks it (an in-memory server as its hook, a real one over HTTPS). `profile` may
    be changed while the host runs; delays that have begun end by the new one.
    """

    def __init__(
        self,
        api: Client,
        disks: GuestDisks,
        images: Images,
        *,
        namespace: str,
        hosts: Sequence[str],
        admission: Admission,
        profile: Profile = INSTANT,
    ) -> None:
        self._profile = profile
        self._admission = admission
        self._api = api
        self._disks = disks
        self._namespace = namespace
        self._broken: dict[str, str] = {}
        self._changed = threading.Condition()
        self._informers = {kind: Informer(api, kind, indexers=INDEXERS.get(kind)) for kind in WATCHED}
        self.cache = Cache({kind: informer.store for kind, informer in self._informers.items()})
        self._controllers = {each.name: each for each in self._make(images, hosts)}
        self._routes = Routes(self.cache)

    def _make(self, images: Images, hosts: Sequence[str]) -> Iterable[Controller]:
        api, cache = self._api, self.cache
        hotplug = Hotplug(api, cache)

        def profile() -> Profile:
            return self._profile

        yield Controller("machines", MachineController(api, cache).reconcile)
        yield Controller("instances", InstanceController(api, cache, hotplug, hosts).reconcile)
        yield Controller("handler", HandlerController(api, cache, self._disks, images, profile).reconcile)
        yield Controller("migrations", MigrationController(api, cache, hosts, profile).reconcile)
        yield Controller("claims", ClaimController(api, cache, images, profile).reconcile)
        yield Controller("volumes", VolumeController(api, cache, images).reconcile)
        yield Controller("attachments", AttachmentController(api, cache, profile, self._broken).reconcile)
        yield Controller("pods", PodController(api, cache, profile).reconcile)

    # --- life ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the controllers; raises HostFailed when the API cannot be read."""
        for kind, informer in self._informers.items():
            informer.on_change(functools.partial(self._dispatch, kind))
            informer.start()
        for controller in self._controllers.values():
            controller.start()
        if not all(informer.wait_synced(SYNC_LIMIT) for informer in self._informers.values()):
            self.stop()
            raise HostFailed(f"the API server could not be read within {SYNC_LIMIT:.0f} s")
        self._admission.look_at(self.cache)

    def stop(self) -> None:
        """Stop the controllers and take all disks out of all machines."""
        for informer in self._informers.values():
            informer.stop()
        for controller in self._controllers.values():
            controller.stop()
        self._disks.close()

    def wait_until(self, true: Callable[[], bool], limit: float) -> bool:
        """Wait up to `limit` seconds until `true()`, asked anew whenever the host has seen a change."""
        with self._changed:
            return self._changed.wait_for(true, limit)

    @property
    def profile(self) -> Profile:
        """The delays of the host. Those that have begun end by what is set here."""
        return self._profile

    @profile.setter
    def profile(self, profile: Profile) -> None:
        self._profile = profile
        for controller in self._controllers.values():
            controller.hurry()

    def look_again(self) -> None:
        """Let every controller look at everything that has been seen, as an informer's resync does."""
        for kind, informer in self._informers.items():
            for obj in informer.store.list():
                self._wake(kind, obj)

    # --- machines -----------------------------------------------------------------------------------

    def phase(self, machine: str) -> str:
        """Return the phase of the machine's instance as the host has seen it, "" without one."""
        return shapes.phase_of(self.cache.instance(self._namespace, machine))

    def stop_machine(self, machine: str) -> None:
        """Ask the machine to stop, as a user's `virtctl stop` does; its template keeps its volumes."""
        self._strategy(machine, "Halted")

    def start_machine(self, machine: str) -> None:
        """Ask the machine to start."""
        self._strategy(machine, "RerunOnFailure")

    def restart_machine(self, machine: str) -> None:
        """End the machine's instance; a new one follows."""
        self._api.delete(INSTANCES, machine, self._namespace)

    def delete_machine(self, machine: str) -> None:
        """Delete the machine; its claims stay."""
        self._api.delete(MACHINES, machine, self._namespace)

    def migrate(self, machine: str) -> str:
        """Ask for a live migration to another host; return the name of the migration."""
        migration = {
            "apiVersion": words.MIGRATIONS.api_version,
            "kind": words.MIGRATIONS.kind,
            "metadata": {"generateName": f"{machine}-", "namespace": self._namespace},
            "spec": {"vmiName": machine},
        }
        made = self._api.create(words.MIGRATIONS, migration, self._namespace)
        return text(made, "metadata", "name")

    def _strategy(self, machine: str, strategy: str) -> None:
        body = MergePatch({"spec": {"runStrategy": strategy}})
        self._api.patch(MACHINES, machine, body, self._namespace)

    # --- faults -------------------------------------------------------------------------------------

    @property
    def controllers(self) -> tuple[str, ...]:
        """The names for `pause` and `resume`."""
        return tuple(self._controllers)

    def pause(self, controller: str) -> None:
        """Let the controller stand still; what it should do meanwhile is kept for it."""
        self._controllers[controller].pause()

    def resume(self, controller: str, *, drop: bool = False) -> None:
        """Let the controller go on; with `drop` it never hears of what happened meanwhile."""
        self._controllers[controller].resume(drop=drop)

    def break_volume(self, volume: str, reason: str) -> None:
        """Let every attachment of the volume fail, for `reason`; pods that mount it stay Pending."""
        self._broken[volume] = reason
        self._controllers["attachments"].add(Key("", volume))

    def mend_volume(self, volume: str) -> None:
        """Let the volume be attached again."""
        self._broken.pop(volume, None)
        self._controllers["attachments"].add(Key("", volume))

    def quota(self, namespace: str, storage: str) -> None:
        """Let the claims of a namespace ask for no more than `storage` (such as 10Gi) in all."""
        self._admission.limit_storage(namespace, storage)

    def _dispatch(self, kind: Resource, change: Change) -> None:
        for obj in filter(None, (change.old, change.new)):
            self._wake(kind, obj)
        with self._changed:
            self._changed.notify_all()

    def _wake(self, kind: Resource, obj: Object) -> None:
        for controller, key in self._routes.of(kind, obj):
            self._controllers[controller].add(key)
