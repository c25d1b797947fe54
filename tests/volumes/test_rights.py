"""The rights of the controller half: what its modules declare is what they use, no more and no less."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

import csi.controller
from csi.controller.ownership import GUEST_PERMISSIONS
from csi.errors import InUse, InvalidArgument, NotFound
from kube.permissions import Difference, Recorder, compare
from sim.host.profile import Profile
from tests.volumes.shapes import request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube.permissions import Permission
    from tests.volumes.bench import VolumeBench


def declared() -> Iterator[Permission]:
    """Return what all modules of csi.controller say that they need of the host."""
    for module in pkgutil.iter_modules(csi.controller.__path__, "csi.controller."):
        yield from getattr(import_module(module.name), "PERMISSIONS", ())


def test_declared_and_used_rights_are_the_same(bench: VolumeBench) -> None:
    """A volume's whole life, with a refusal, takes each right once: charts and docs can grant just these."""
    bench.host.profile = Profile(detach=0.3)  # so that a released disk has to be waited for
    on_host, on_guest = Recorder(), Recorder()
    guest = bench.guest(on_guest)
    controller = bench.controller(guest=guest, on_request=on_host)
    with pytest.raises(InvalidArgument):
        controller.create(request(parameters={"hostStorageClass": "none"}))
    volume = controller.create(request()).id
    with pytest.raises(NotFound):
        bench.controller(guest=guest, cluster="").validate(volume)  # its cluster is told from the guest's
    controller.engine.publish(volume, bench.machines[0])
    controller.engine.unpublish(volume, bench.machines[0])
    controller.delete(volume)
    with pytest.raises(InUse):
        controller.delete(f"{bench.machines[0]}-disk-0")
    nothing = Difference(frozenset(), frozenset())
    assert compare(declared(), on_host.used) == nothing
    assert compare(GUEST_PERMISSIONS, on_guest.used) == nothing
