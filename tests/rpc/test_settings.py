"""What the driver is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from csi.rpc.endpoint import UnixEndpoint
from csi.settings import Address, Mode, Settings, SettingsError, read_settings

POD = {"KUBERNETES_SERVICE_HOST": "10.43.0.1"}
"""What Kubernetes puts into the environment of every pod."""


def test_upstreams_command_line_is_enough() -> None:
    """The flags of upstream's chart start the whole driver, everything else at its default."""
    arguments = ["--nodeid=vm1", "--endpoint=unix:///csi/csi.sock", "--kubeconfig=/cloud/config"]
    assert read_settings([*arguments, "--host-storage-class=fast"], POD) == Settings(
        mode=Mode.ALL,
        endpoint=UnixEndpoint(Path("/csi/csi.sock")),
        node_id="vm1",  # type: ignore[arg-type] # a NewType of str
        kubeconfig=Path("/cloud/config"),
        guest_kubeconfig=None,
        in_cluster=True,
        cluster_id="",
        host_storage_class="fast",
        root=Path("/"),
        max_wait=110.0,
        collect_window=0.05,
        metrics=None,
        log_level="info",
        log_format="auto",
    )


def test_every_mistake_is_told_at_once() -> None:
    """Whoever got ten words wrong learns of all ten from one start."""
    arguments = [
        "--mode=both",
        "--endpoint=http://x",
        "--max-wait=long",
        "--collect-window=-1",
        "--metrics-address=9090x",
        "--root=/no/such/folder",
        "--log-level=loud",
        "--nodeid=" + "n" * 257,
        "--verbose",
        "word",
    ]
    with pytest.raises(SettingsError) as told:
        read_settings(arguments, POD)
    flags = [mistake.partition(":")[0] for mistake in told.value.mistakes]
    assert flags == [*(argument.partition("=")[0] for argument in arguments)]


def test_a_flag_without_its_value_is_told_with_the_other_mistakes() -> None:
    """A missing value does not hide the mistakes before it."""
    with pytest.raises(SettingsError) as told:
        read_settings(["--mode=both", "--nodeid"], POD)
    assert len(told.value.mistakes) == 2


@pytest.mark.parametrize("mode", ["all", "node"])
def test_the_node_half_needs_its_id(mode: str) -> None:
    """Without --nodeid the node half cannot say who it is."""
    with pytest.raises(SettingsError, match="--nodeid"):
        read_settings([f"--mode={mode}"], POD)


def test_the_controller_half_has_no_node_id() -> None:
    """The controller half alone is no node."""
    assert read_settings(["--mode=controller"], POD).node_id == ""


@pytest.mark.parametrize(
    ("arguments", "environment", "enough"),
    [
        (["--mode=controller"], {}, False),
        (["--mode=all", "--nodeid=n"], {}, False),
        (["--mode=node", "--nodeid=n"], {}, True),
        (["--mode=controller"], POD, True),
        (["--mode=controller", "--guest-kubeconfig=/guest"], {}, True),
        (["--mode=controller", "--cluster-id=c"], {}, True),
    ],
)
def test_the_controller_half_must_learn_its_cluster(
    arguments: list[str], environment: dict[str, str], enough: bool
) -> None:
    """Without a guest API nobody can tell which cluster's volumes these are, unless the flag does."""
    if enough:
        read_settings(arguments, environment)
    else:
        with pytest.raises(SettingsError, match="--cluster-id"):
            read_settings(arguments, environment)


def test_the_environment_is_upstreams() -> None:
    """HOST_STORAGE_CLASS and DEBUG count, and a flag counts more."""
    environment = POD | {"HOST_STORAGE_CLASS": "slow", "DEBUG": "true"}
    told = read_settings(["--mode=controller"], environment)
    flag = read_settings(["--mode=controller", "--host-storage-class=x"], environment)
    assert (told.host_storage_class, told.log_level) == ("slow", "debug")
    assert flag.host_storage_class == "x"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9090", Address("127.0.0.1", 9090)),
        (":9090", Address("", 9090)),
        ("[::1]:0", Address("::1", 0)),
    ],
)
def test_a_metrics_address_is_read(text: str, address: Address) -> None:
    """An empty host means every address of the pod."""
    assert read_settings(["--mode=controller", f"--metrics-address={text}"], POD).metrics == address
