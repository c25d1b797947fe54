"""What a CreateVolume request asks of the host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from csi.controller.create_plan import check_same, plan_claim, plan_order, why_unbound
from csi.controller.marks import ASKED, ATTACHED_TO, FRESH, REQUEST
from csi.controller.marks import CLUSTER as CLUSTER_KEY
from csi.controller.validate_plan import why_not
from csi.errors import AlreadyExists, Busy, CsiError, InvalidArgument
from csi.model import AccessMode, Capability, CreateRequest
from harvester.kinds import LVM
from tests.volumes.shapes import BLOCK, CLUSTER, FAST, GIB, MOUNT, made, request

if TYPE_CHECKING:
    from harvester.classes import HostClass

PLAIN_LONGHORN = replace(FAST, migratable=False)
LOCAL = replace(FAST, name="local", provisioner=LVM, migratable=False, waits_for_consumer=True)
THIRD_PARTY = replace(FAST, name="nas", provisioner="csi.example.org", migratable=False)


def test_a_claim_says_whose_it_is() -> None:
    """The claim bears everything that a repeat, an attachment or a deletion decides from."""
    claim = plan_claim(plan_order(request("My Volume")), FAST, CLUSTER)
    annotations = claim["metadata"]["annotations"]
    assert claim["metadata"]["name"].startswith("my-volume-")
    assert annotations[CLUSTER_KEY] == CLUSTER
    assert annotations[REQUEST] == "My Volume"
    assert annotations[ATTACHED_TO] == ""
    assert annotations[FRESH] == "never-attached"
    assert annotations[ASKED] == '{"capabilities": [["SINGLE_NODE_WRITER", "mount ext4"]], "parameters": {}}'
    assert "labels" not in claim["metadata"]
    assert claim["spec"]["resources"] == {"requests": {"storage": "1Gi"}}


@pytest.mark.parametrize(
    ("host_class", "access_mode"),
    [
        pytest.param(FAST, "ReadWriteMany", id="migratable-longhorn-lets-the-machine-migrate"),
        pytest.param(PLAIN_LONGHORN, "ReadWriteOnce", id="longhorn-that-would-make-a-share"),
        pytest.param(LOCAL, "ReadWriteOnce", id="lvm-has-one-writer"),
        pytest.param(THIRD_PARTY, "ReadWriteMany", id="third-party-as-upstream"),
        pytest.param(None, "ReadWriteMany", id="an-unreadable-class-as-upstream"),
    ],
)
def test_the_access_mode_is_what_the_class_gives_to_a_raw_disk(
    host_class: HostClass | None, access_mode: str
) -> None:
    """A claim asks for a raw disk in the one way that its class can give."""
    spec = plan_claim(plan_order(request()), host_class, CLUSTER)["spec"]
    assert spec["accessModes"] == [access_mode]
    assert spec["volumeMode"] == "Block"


@pytest.mark.parametrize(
    ("parameter", "flag", "host_class", "written"),
    [
        pytest.param("fast", "slow", FAST, "fast", id="the-class-that-was-found"),
        pytest.param("", "", FAST, "fast", id="the-host's-default-by-name"),
        pytest.param("nas", "slow", None, "nas", id="unreadable:the-parameter"),
        pytest.param("", "slow", None, "slow", id="unreadable:the-flag"),
        pytest.param("", "", None, None, id="unreadable:left-to-the-host"),
    ],
)
def test_the_class_is_the_parameter_else_the_flag_else_the_host_s(
    parameter: str, flag: str, host_class: HostClass | None, written: str | None
) -> None:
    """The documented order of host classes."""
    order = plan_order(request(parameters={"hostStorageClass": parameter}), flag)
    assert plan_claim(order, host_class, CLUSTER)["spec"].get("storageClassName") == written


def test_a_host_file_system_is_for_classes_without_raw_disks() -> None:
    """Upstream's hostVolumeMode is read, in any case, and refused where it would make a share or nothing."""
    order = plan_order(request(parameters={"hostVolumeMode": "Filesystem"}))
    claim = plan_claim(order, THIRD_PARTY, CLUSTER)
    assert claim["spec"]["volumeMode"] == "Filesystem"
    assert claim["metadata"]["annotations"]["harvesterhci.io/volumeForVirtualMachine"] == "true"
    for host_class in (FAST, PLAIN_LONGHORN, LOCAL):
        with pytest.raises(InvalidArgument, match=host_class.name):
            plan_claim(order, host_class, CLUSTER)


def test_rancher_s_label_is_only_written_when_asked_for() -> None:
    """The label makes Rancher delete the claim with the cluster, Retain or not."""
    claim = plan_claim(plan_order(request()), FAST, CLUSTER, guest_label="prod")
    assert claim["metadata"]["labels"] == {"guestcluster.harvesterhci.io/name": "prod"}


def test_unknown_parameters_are_named_and_sidecars_ones_are_known() -> None:
    """A parameter that means nothing is accepted, and can be warned of."""
    order = plan_order(
        request(
            parameters={
                "zebra": "1",
                "aardvark": "2",
                "hostStorageClass": "fast",
                "hostVolumeMode": "block",
                "csi.storage.k8s.io/pvc/name": "data",
            }
        )
    )
    assert order.unknown == ("aardvark", "zebra")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"has_source": True}, id="a-source"),
        pytest.param({"parameters": {"hostVolumeMode": "raw"}}, id="an-unknown-volume-mode"),
        pytest.param(
            {"capabilities": (Capability(AccessMode.MULTI_NODE_MULTI_WRITER, block=True),)}, id="shared"
        ),
        pytest.param(
            {"capabilities": (MOUNT, Capability(AccessMode.MULTI_NODE_READER_ONLY))}, id="one-of-two"
        ),
        pytest.param({"capabilities": (Capability(AccessMode.UNKNOWN),)}, id="no-access-mode"),
        pytest.param(
            {"capabilities": (Capability(AccessMode.SINGLE_NODE_WRITER, fs_type="ntfs"),)}, id="a-file-system"
        ),
    ],
)
def test_what_cannot_be_is_refused_before_the_host_is_asked(changes: dict[str, object]) -> None:
    """A request that no host could serve is judged by itself."""
    with pytest.raises(InvalidArgument):
        plan_order(request(**changes))


@pytest.mark.parametrize(
    "mode", [mode for mode in AccessMode if mode is not AccessMode.UNKNOWN and not mode.multi_node]
)
def test_one_machine_s_modes_are_served(mode: AccessMode) -> None:
    """Each mode of a single node is served, mounted or raw."""
    assert why_not((Capability(mode), Capability(mode, block=True), Capability(mode, fs_type="ext4"))) == ""


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(request(), id="the-same"),
        pytest.param(request(required=GIB // 2), id="less-was-required"),
        pytest.param(request(limit=2 * GIB), id="inside-a-limit"),
        pytest.param(request(required=0), id="no-size-said"),
        pytest.param(request(parameters={"csi.storage.k8s.io/pvc/name": "data"}), id="a-sidecar's-parameter"),
        pytest.param(request(capabilities=(replace(MOUNT, mount_flags=("noatime",)),)), id="a-mount-flag"),
        pytest.param(request(capabilities=(MOUNT, MOUNT)), id="a-capability-said-twice"),
    ],
)
def test_a_repeat_finds_its_claim(again: CreateRequest) -> None:
    """A claim that this request made answers it again, while it is compatible."""
    check_same(plan_order(again), made(request()), CLUSTER)


@pytest.mark.parametrize(
    ("again", "error", "words"),
    [
        pytest.param(request(required=2 * GIB), AlreadyExists, "1073741824", id="more-is-required"),
        pytest.param(request(required=0, limit=GIB // 2), AlreadyExists, "at most", id="less-is-allowed"),
        pytest.param(request(capabilities=(BLOCK,)), AlreadyExists, "block", id="other-capabilities"),
        pytest.param(
            request(parameters={"hostStorageClass": "b"}), AlreadyExists, "hostStorageClass", id="a-class"
        ),
        pytest.param(request(parameters={"colour": "b"}), AlreadyExists, "colour", id="an-unknown-parameter"),
    ],
)
def test_a_repeat_that_asks_otherwise_is_told_so(
    again: CreateRequest, error: type[CsiError], words: str
) -> None:
    """Same name, other volume: the words say what differs (CSI spec, CreateVolume)."""
    with pytest.raises(error, match=words):
        check_same(plan_order(again), made(request()), CLUSTER)


def test_a_claim_that_was_rounded_or_grown_is_compared_by_what_was_requested() -> None:
    """What the host gives may be more than the limit: it still is the volume that was asked for."""
    check_same(plan_order(request(limit=GIB)), made(request(), capacity=GIB + 1), CLUSTER)


@pytest.mark.parametrize(
    ("claim", "error"),
    [
        pytest.param(
            made(request(), mark=replace(made(request()).mark, cluster="x")),
            AlreadyExists,
            id="other-cluster",
        ),
        pytest.param(
            made(request(), mark=replace(made(request()).mark, cluster="")), AlreadyExists, id="nobody's"
        ),
        pytest.param(
            made(request(), mark=replace(made(request()).mark, request="x")),
            AlreadyExists,
            id="other-request",
        ),
        pytest.param(made(request(), terminating=True), Busy, id="being-deleted"),
    ],
)
def test_a_claim_that_is_no_answer(claim: object, error: type[CsiError]) -> None:
    """A claim of the right name is returned only if this request made it and nobody deletes it."""
    with pytest.raises(error):
        check_same(plan_order(request()), claim, CLUSTER)  # type: ignore[arg-type]  # parametrize has no types


def test_the_words_for_a_claim_that_does_not_bind_name_what_can_be_seen() -> None:
    """The reader learns the claim, its class, its phase, and who can see more."""
    words = why_unbound(made(request(), phase="Pending", conditions=("Resizing (why: because)",)), "team-a")
    for part in ("team-a/pvc-1", "1Gi", "fast", "Pending", "Resizing (why: because)", "kubectl -n team-a"):
        assert part in words
