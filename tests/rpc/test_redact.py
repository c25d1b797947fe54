"""What of a request may be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csi._pb import csi_pb2
from csi.rpc.redact import MAX_ITEMS, MAX_TEXT, mask, shown

from .inprocess import CANARY
from .messages import filled, methods

if TYPE_CHECKING:
    from google.protobuf.descriptor import MethodDescriptor

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize("method", methods(), ids=lambda method: method.name)
def test_no_secret_of_any_request_is_shown(method: MethodDescriptor) -> None:
    """Whatever the request, neither its marked fields nor a mount option's value is shown."""
    assert CANARY not in str(shown(filled(method, "text", CANARY)))


@pytest.mark.parametrize("method", methods(), ids=lambda method: method.name)
def test_no_secret_of_any_request_survives_in_a_text(method: MethodDescriptor) -> None:
    """An error that quotes a secret of its request is shown without it."""
    request = filled(method, "text", CANARY)
    if CANARY.encode() in request.SerializeToString():
        assert mask(f"cannot mount with {CANARY}", request) == "cannot mount with ***"


def test_secrets_are_told_by_the_mark_not_by_the_name() -> None:
    """A parameter that is called secret, but is none, is shown."""
    request = csi_pb2.CreateVolumeRequest(parameters={"secret": "name"}, secrets={"x": CANARY})
    assert shown(request) == {"parameters": {"secret": "name"}}


def test_mount_options_are_shown_by_name() -> None:
    """Which options were asked for is seen; their values are not."""
    flags = csi_pb2.VolumeCapability.MountVolume(
        fs_type="ext4", mount_flags=["noatime", f"password={CANARY}"]
    )
    assert shown(flags) == {"fs_type": "ext4", "mount_flags": ["noatime", "password"]}


def test_the_request_itself_is_left_as_it_is() -> None:
    """What is hidden in the log still reaches the driver."""
    request = csi_pb2.DeleteVolumeRequest(volume_id="v", secrets={"x": CANARY})
    shown(request)
    assert request.secrets["x"] == CANARY


def test_a_longer_secret_is_hidden_whole() -> None:
    """Where one secret is the beginning of another, nothing of the longer one is left."""
    request = csi_pb2.DeleteVolumeRequest(secrets={"a": "secret", "b": "secret-and-more"})
    assert mask("secret-and-more", request) == "***"


def test_a_huge_request_is_shown_cut() -> None:
    """A log line stays short whatever a caller sends."""
    request = csi_pb2.CreateVolumeRequest(
        name="n" * 100_000, parameters={f"{number}{'k' * 1000}": "v" * 1000 for number in range(1000)}
    )
    assert len(str(shown(request))) < (MAX_ITEMS + 1) * 2 * (MAX_TEXT + 50)


@given(text=TEXT, secret=TEXT)
def test_any_text_can_be_shown(text: str, secret: str) -> None:
    """Whatever the strings of a request are, showing and masking it are no faults."""
    for method in methods():
        request = filled(method, text, secret)
        mask(str(shown(request)), request)
