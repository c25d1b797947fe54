"""A whole simulated host in one directory: API server, controllers, disks, and the kubeconfigs to reach it.

`DIR/guest-role.kubeconfig` is what a guest cluster is given, `DIR/admin.kubeconfig` may do everything, and
`DIR/nodes/<machine>/` is what that machine's kernel shows of its disks. The API's state lives as long as the
simulation: what an earlier run left in the directory means nothing any more, and is cleared away at the
start.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from kube.config import connect, from_kubeconfig
from kube.objects import text
from sim.apiserver.access import MASTERS
from sim.apiserver.server import ApiServer
from sim.host import loops
from sim.host.admission import HOST_ACCOUNT, Admission
from sim.host.disks import GuestDisks, Images, LoopDevices, PlainFiles
from sim.host.host import Host, HostFailed
from sim.host.profile import INSTANT, PROFILES
from sim.host.releases import release
from sim.host.seed import seed
from sim.host.world import World, objects

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from kube.rest import RestClient
    from sim.host.profile import Profile

__all__ = ["PROFILES", "DirectoryTaken", "Simulation"]

BOOT_LIMIT: Final = 60.0
"""Seconds until all machines must run."""
IMAGES: Final = "volumes"
NODES: Final = "nodes"
KUBECONFIGS: Final = ("guest-role", "admin", "controllers")
MARKER: Final = ".simulated-harvester"
"""A file that says whose the directory is, locked while a simulation runs there."""


class DirectoryTaken(Exception):
    """The directory holds what is not ours, or another simulation runs there."""


class Simulation:
    """A simulated host, from `with` to the end of its block. Raises ValueError for a release that is not
    known.

    `nodes` is the number of machines, which run when the block begins, whatever the profile. `loops` tells
    whether disks are loop devices: by default, when we are root.
    """

    server: ApiServer
    host: Host
    admin: RestClient
    """The API with the rights of an administrator."""

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 3,
        harvester: str = "1.9",
        profile: Profile = INSTANT,
        disks: bool | None = None,
    ) -> None:
        self.directory = directory
        self._release = release(harvester)
        self._world = World(machines=nodes)
        self._profile = profile
        self._loops = os.geteuid() == 0 if disks is None else disks
        self._stack = ExitStack()

    @property
    def namespace(self) -> str:
        """The guest's namespace on the host."""
        return self._world.namespace

    @property
    def machines(self) -> tuple[str, ...]:
        """The names of the guest's machines."""
        return self._world.machine_names

    def node_root(self, machine: str) -> Path:
        """Return the directory that holds the machine's `dev` and `sys`."""
        return self.directory / NODES / machine

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack) -> None:
        self._take_directory(stack)
        self._clear()
        admission = Admission()
        self.server = stack.enter_context(ApiServer(hooks=[admission]))
        self.admin = self._client(stack, "admin", self.server.admin_kubeconfig())
        guest = f"system:serviceaccount:{self.namespace}:{self._world.account}"
        self._kubeconfig("guest-role", self._user(guest))
        seed(self.admin, objects(self._world, self._release))
        controllers = self._client(stack, "controllers", self._user(HOST_ACCOUNT, MASTERS))
        disks = GuestDisks(self.directory / NODES, LoopDevices() if self._loops else PlainFiles())
        images = Images(self.directory / IMAGES)
        self.host = Host(
            controllers,
            disks,
            images,
            namespace=self.namespace,
            hosts=self._world.hosts,
            admission=admission,
        )
        if self._loops:
            stack.callback(loops.drained, self.directory)
        stack.callback(self.host.stop)
        self.host.start()
        self._boot()

    def _boot(self) -> None:
        """Wait until all machines run, then let the profile's delays count."""
        if not self.host.wait_until(lambda: all(map(self._runs, self.machines)), BOOT_LIMIT):
            raise HostFailed(f"the machines did not start within {BOOT_LIMIT:.0f} s")
        self.host.profile = self._profile

    def _runs(self, machine: str) -> bool:
        seen = self.host.cache.machine(self.namespace, machine)
        return text(seen, "status", "printableStatus") == "Running"

    def _user(self, name: str, *groups: str) -> str:
        """Let a user be known by a new token; return the kubeconfig."""
        token = secrets.token_urlsafe(24)
        self.server.add_user(name, token, groups)
        return self.server.kubeconfig(token, self.namespace)

    def _kubeconfig(self, name: str, content: str) -> Path:
        path = self.directory / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(content)
        return path

    def _client(self, stack: ExitStack, name: str, kubeconfig: str) -> RestClient:
        client = connect(from_kubeconfig(self._kubeconfig(name, kubeconfig)))
        stack.callback(client.close)
        return client

    def _take_directory(self, stack: ExitStack) -> None:
        """Make the directory ours alone: what is cleared away there must have been made by us."""
        marker = self.directory / MARKER
        self.directory.mkdir(parents=True, exist_ok=True)
        if not marker.exists() and any(self.directory.iterdir()):
            raise DirectoryTaken(
                f"{self.directory} is not empty and not a simulated host's: give a folder of its own"
            )
        lock = stack.enter_context(marker.open("a"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DirectoryTaken(
                f"another simulated host runs in {self.directory}: stop it or give another folder"
            ) from error

    def _clear(self) -> None:
        """Clear away what an earlier run left of what we make here."""
        if self._loops:
            loops.release(self.directory)
        for image in (self.directory / IMAGES).glob("*.img"):
            image.unlink()
        for machine in self.machines:
            for part in ("dev", "sys"):
                shutil.rmtree(self.node_root(machine) / part, ignore_errors=True)
        for name in KUBECONFIGS:
            (self.directory / f"{name}.kubeconfig").unlink(missing_ok=True)
