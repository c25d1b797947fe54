"""The real kubectl, as a person uses it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from kube.client import MergePatch
from kube.objects import annotations_of, labels_of, text
from kube.resources import CLAIMS, CONFIG_MAPS

from .conftest import GUEST, TOOLS_VARIABLE
from .shapes import claim, config_map, widget

if TYPE_CHECKING:
    from .conftest import Api

LIMIT = 20.0


class Kubectl(Protocol):
    """Runs kubectl with arguments and returns what it printed; it fails the test unless `code` is met."""

    def __call__(self, *arguments: str, stdin: str = "", code: int = 0) -> str: ...


def program() -> str | None:
    """Return kubectl out of the tools that were built, or one that is installed."""
    built = Path(os.environ.get(TOOLS_VARIABLE, "/nonexistent")) / "kubectl"
    return str(built) if built.exists() else shutil.which("kubectl")


@pytest.fixture
def kubectl(api: Api, tmp_path: Path) -> Kubectl:
    """Return kubectl as the administrator, in the test's namespace."""
    found = program()
    if found is None:
        pytest.skip("no kubectl on this machine; make conformance builds one")

    def run(*arguments: str, stdin: str = "", code: int = 0) -> str:
        command = [found, f"--kubeconfig={api.kubeconfig}", f"--cache-dir={tmp_path}", *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=LIMIT, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return run


def test_kubectl_shows_objects(api: Api, kubectl: Kubectl) -> None:
    """`get` prints a table, whole objects, names, and what a selector chooses."""
    api.client.create(CLAIMS, claim("data", labels={"x": "y"}), api.namespace)
    heading, row = kubectl("get", "pvc").splitlines()
    assert heading.split()[0] == "NAME"
    assert row.split()[0] == "data"
    assert json.loads(kubectl("get", "pvc", "data", "-o", "json"))["spec"]["volumeMode"] == "Filesystem"
    assert "  volumeMode: Filesystem" in kubectl("get", "pvc", "data", "-o", "yaml")
    assert kubectl("get", "pvc", "-l", "x=y", "-o", "name") == "persistentvolumeclaim/data\n"
    assert kubectl("get", "pvc", "--field-selector", "metadata.name=data", "-o", "name").endswith("/data\n")
    assert "not found" in kubectl("get", "pvc", "other", code=1)


def test_kubectl_describes(api: Api, kubectl: Kubectl) -> None:
    """`describe` works on a kind that it knows, events looked up included."""
    api.client.create(CLAIMS, claim("data"), api.namespace)
    assert "Finalizers:    [kubernetes.io/pvc-protection]" in kubectl("describe", "pvc", "data")


def test_kubectl_creates_applies_and_replaces(api: Api, kubectl: Kubectl) -> None:
    """Objects go in from files, checked by the server; apply is idempotent, and changes what differs."""
    kubectl("create", "-f", "-", stdin=json.dumps(claim("data")))
    wanted = config_map("a", {"x": "1"})
    for sent, outcome in (
        (wanted, "created"),
        (wanted, "unchanged"),
        (config_map("a", {"x": "2"}), "configured"),
    ):
        assert outcome in kubectl("apply", "-f", "-", stdin=json.dumps(sent))
    assert api.client.get(CONFIG_MAPS, "a", api.namespace)["data"] == {"x": "2"}
    kubectl("replace", "-f", "-", stdin=json.dumps(config_map("a", {"x": "3"})))
    assert api.client.get(CONFIG_MAPS, "a", api.namespace)["data"] == {"x": "3"}


def test_kubectl_patches(api: Api, kubectl: Kubectl) -> None:
    """All three kinds of patch, and the commands that are made of them."""
    api.client.create(CLAIMS, claim("data", labels={"a": "1"}), api.namespace)
    kubectl("patch", "pvc", "data", "--type=merge", "-p", '{"metadata":{"labels":{"b":"2"}}}')
    kubectl(
        "patch", "pvc", "data", "--type=json", "-p", '[{"op":"add","path":"/metadata/labels/c","value":"3"}]'
    )
    kubectl("patch", "pvc", "data", "-p", '{"metadata":{"labels":{"d":"4"}}}')
    kubectl("label", "pvc", "data", "e=5", "a-")
    kubectl("annotate", "pvc", "data", "note=6")
    status = '{"status":{"phase":"Lost"}}'
    kubectl("patch", "pvc", "data", "--subresource=status", "--type=merge", "-p", status)
    stored = api.client.get(CLAIMS, "data", api.namespace)
    assert labels_of(stored) == {"b": "2", "c": "3", "d": "4", "e": "5"}
    assert (annotations_of(stored)["note"], text(stored, "status", "phase")) == ("6", "Lost")


@pytest.mark.usefixtures("widgets")
def test_kubectl_handles_custom_kinds(api: Api, kubectl: Kubectl) -> None:
    """Discovery leads it to kinds that were defined a moment ago."""
    kubectl("create", "-f", "-", stdin=json.dumps(widget("w")))
    kubectl("patch", "widget", "w", "--type=merge", "-p", '{"spec":{"size":2}}')
    assert json.loads(kubectl("get", "widgets.example.test", "w", "-o", "json"))["spec"] == {"size": 2}
    kubectl("delete", "widget", "w")


def test_kubectl_deletes_and_waits(api: Api, kubectl: Kubectl) -> None:
    """`delete` waits by a watch until the object is gone; with --wait=false it leaves at once."""
    api.client.create(CONFIG_MAPS, config_map("a"), api.namespace)
    assert 'configmap "a" deleted' in kubectl("delete", "configmap", "a")
    api.client.create(CLAIMS, claim("data"), api.namespace)
    kubectl("delete", "pvc", "data", "--wait=false")
    api.client.patch(CLAIMS, "data", MergePatch({"metadata": {"finalizers": None}}), api.namespace)
    kubectl("wait", "--for=delete", "pvc/data", "--timeout=10s")
    assert "NotFound" in kubectl("delete", "configmap", "a", code=1)


def test_kubectl_watches(api: Api, kubectl: Kubectl) -> None:
    """`wait` follows a claim until its phase is as asked."""
    api.client.create(CLAIMS, claim("data"), api.namespace)
    api.client.patch(CLAIMS, "data", MergePatch({"status": {"phase": "Bound"}}), api.namespace, "status")
    kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data", "--timeout=10s")
    assert "data" in kubectl("get", "pvc", "-w", "--request-timeout=1s", code=0)


def test_kubectl_asks_what_it_may(api: Api, kubectl: Kubectl) -> None:
    """`auth can-i` answers yes to the administrator and no to a user without rights."""
    assert kubectl("auth", "can-i", "list", "pods") == "yes\n"
    others = str(api.server.kubeconfig(GUEST.token, api.namespace))
    assert kubectl("auth", "can-i", "list", "pods", f"--kubeconfig={others}", code=1) == "no\n"
    assert 'User "guest" cannot list resource "pods"' in kubectl(
        "get", "pods", f"--kubeconfig={others}", code=1
    )


def test_kubectl_makes_a_namespace(api: Api, kubectl: Kubectl) -> None:
    """`create namespace` works, though kubectl sends it in another form."""
    assert kubectl("create", "namespace", f"{api.namespace}-more").endswith("created\n")
