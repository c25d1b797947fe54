"""Names of claims."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csi.controller.names import is_label, is_object_name, volume_id_for


@pytest.mark.parametrize("name", ["pvc-6f0c1e3a-7a5e-4d0b-9f43-0a1b2c3d4e5f", "a", "0", "a" * 63])
def test_a_label_is_its_own_volume_id(name: str) -> None:
    """Volumes made by upstream keep their ids."""
    assert volume_id_for(name) == name


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        pytest.param("CreateVolume-0A1B", "createvolume-0a1b-", id="upper-case"),
        pytest.param("a" * 128, "a" * 50 + "-", id="too-long"),
        pytest.param("a.b", "a-b-", id="dots-are-no-label"),
        pytest.param("-a-", "a-", id="outer-dashes"),
        pytest.param("größe", "gr-e-", id="beyond-ascii"),
        pytest.param("\N{SNOWMAN}", "volume-", id="nothing-left"),
        pytest.param("a\n", "a-", id="a-trailing-newline"),
    ],
)
def test_another_name_becomes_a_prefix_and_a_hash(name: str, prefix: str) -> None:
    """A person who reads the host's claims can still tell where one came from."""
    volume = volume_id_for(name)
    assert volume.startswith(prefix)
    assert is_label(volume)
    assert volume != volume_id_for(name + "x")


@given(st.text(max_size=300))
def test_each_name_gives_a_legal_id_always_the_same(name: str) -> None:
    """Whatever a request is called, its claim has a name that the host and KubeVirt accept."""
    volume = volume_id_for(name)
    assert is_label(volume)
    assert is_object_name(volume)
    assert volume_id_for(name) == volume


@given(st.lists(st.text(min_size=1, max_size=140), unique=True, max_size=20))
def test_different_names_give_different_ids(names: list[str]) -> None:
    """No two requests meet in one claim."""
    assert len({volume_id_for(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    "name", ["", "A", "a/b", "../secrets/x", "a..b", ".a", "a b", "a\n", "a%2fb", "a" * 254, "é"]
)
def test_what_no_object_can_be_called(name: str) -> None:
    """An id that cannot exist is not asked for, so that it cannot lead to another URL either."""
    assert not is_object_name(name)


@pytest.mark.parametrize("name", ["a", "a.b-c.d", "a" * 253])
def test_what_an_object_can_be_called(name: str) -> None:
    """Upstream took names with dots: such claims can still be looked up and deleted."""
    assert is_object_name(name)
