"""virt-handler's steps and words, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kube.objects import text
from sim.host.handler_plan import Domain, Steps, plan_steps, ready_to_boot, volume_status

from .test_hotplug_plan import entry, instance

if TYPE_CHECKING:
    from kube.objects import Object

A = frozenset("a")


def with_pod(phase: str = "Running", *, uid: str = "u") -> Object:
    """Return an instance that wants volume a, whose attachment pod is ready when `uid` is not empty."""
    return instance("a", status=(entry("a", "AttachedToNode", uid=uid),), phase=phase)


@pytest.mark.parametrize(
    ("vmi", "domain", "expected"),
    [
        pytest.param(with_pod(uid=""), Domain(), Steps(), id="waits-for-the-pod"),
        pytest.param(with_pod(), Domain(), Steps(mount=A), id="mounts-first"),
        pytest.param(with_pod(), Domain(A), Steps(plug=A), id="then-plugs"),
        pytest.param(with_pod("Scheduled"), Domain(A), Steps(), id="plugs-only-what-runs"),
        pytest.param(with_pod(), Domain(A, A), Steps(), id="at-rest"),
        pytest.param(with_pod(uid=""), Domain(A, A), Steps(), id="a-pod-swap-touches-nothing"),
        pytest.param(instance(), Domain(A, A), Steps(unplug=A), id="unplugs-first"),
        pytest.param(instance(), Domain(A), Steps(unmount=A), id="then-unmounts"),
    ],
)
def test_steps(vmi: Object, domain: Domain, expected: Steps) -> None:
    """One pass does one kind of step, in the order in which a guest would notice."""
    assert plan_steps(vmi, domain) == expected


def test_an_instance_boots_with_all_its_volumes_mounted() -> None:
    """A hot-pluggable volume that is not there keeps the machine from booting."""
    assert not ready_to_boot(with_pod("Scheduled"), Domain())
    assert ready_to_boot(with_pod("Scheduled"), Domain(A))


@pytest.mark.parametrize(
    ("vmi", "domain", "target", "phase", "shown"),
    [
        pytest.param(with_pod(), Domain(A), "", "MountedToPod", "", id="mounted"),
        pytest.param(with_pod(), Domain(A, A), "sda", "Ready", "sda", id="plugged"),
        pytest.param(
            instance(status=(entry("a", "Ready", target="sda"),)), Domain(A), "", "Ready", "", id="unplugged"
        ),
        pytest.param(
            instance(status=(entry("a", "Ready"),)), Domain(), "", "UnMountedFromPod", "", id="unmounted"
        ),
    ],
)
def test_words(vmi: Object, domain: Domain, target: str, phase: str, shown: str) -> None:
    """A removed volume stays Ready, without a target, until it is unmounted."""
    targets = {"disk-0": "vda", "a": target} if target else {"disk-0": "vda"}
    entries = volume_status(vmi, domain, targets)
    found = next(each for each in entries if each["name"] == "a")
    assert (text(found, "phase"), found["target"]) == (phase, shown)
