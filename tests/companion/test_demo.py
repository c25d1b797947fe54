"""The demo tells the truth: it says so when something is not, and leaves nothing behind."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from companion.demo.run import left_on_the_machine, run
from companion.demo.story import STORY, Chapter, Told, Untrue, hold

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from companion.demo.stage import Stage

pytestmark = pytest.mark.timeout(120)


def played(*, root: bool, story: tuple[Chapter, ...] | None = None) -> tuple[int, str]:
    """Run the demo; return its exit code and what it printed."""
    out = io.StringIO()
    code = run(Console(file=out, no_color=True, width=200), root=root, story=story)
    return code, out.getvalue()


@pytest.mark.kernel
def test_the_whole_story_is_true() -> None:
    """As root every chapter is told, from the claim to the host that is empty again."""
    code, printed = played(root=True)
    assert code == 0, printed
    assert all(chapter.title in printed for chapter in STORY)
    assert "the file is intact on the second node" in printed
    assert "nothing left behind" in printed


def test_without_root_it_goes_as_far_as_the_disk_in_the_vm() -> None:
    """Without root the demo says what it needs, and shows the part that needs no kernel."""
    code, printed = played(root=False)
    assert code == 0, printed
    assert "run `sudo make demo`" in printed
    assert "hot-plugged into guest-a-node-1" in printed
    assert "intact" not in printed


def test_what_is_not_true_ends_it_with_an_error() -> None:
    """A look that fails ends the demo with exit code 1 and the sentence."""

    def tell(_stage: Stage) -> Iterator[Told]:
        yield Told("something", "its evidence")
        hold(False, "the claim is Pending")

    code, printed = played(root=False, story=(Chapter("A chapter", tell, kernel=False),))
    assert code == 1
    assert "not true: the claim is Pending" in printed


def test_a_refusal_that_nobody_expected_ends_it_with_an_error() -> None:
    """An error of the driver's is shown with its code and its words."""

    def tell(stage: Stage) -> Iterator[Told]:
        stage.controller.create("x", parameters={"hostStorageClass": "gold"})
        yield Told("made", "it should not be")

    code, printed = played(root=False, story=(Chapter("A chapter", tell, kernel=False),))
    assert code == 1
    assert "not true: INVALID_ARGUMENT" in printed


def test_a_leftover_on_the_host_is_not_true() -> None:
    """A claim that nobody deleted is named at the end."""

    def tell(stage: Stage) -> Iterator[Told]:
        stage.controller.create("forgotten")
        yield Told("made", "and forgotten")

    story = (Chapter("A chapter", tell, kernel=False), STORY[-1])
    code, printed = played(root=False, story=story)
    assert code == 1
    assert "claim forgotten" in printed


@pytest.mark.kernel
def test_a_mount_that_is_left_is_seen(tmp_path: Path) -> None:
    """A mount below the demo's folder is named, and not a mount elsewhere."""
    inside = tmp_path / "inside"
    inside.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(inside)], check=True)
    try:
        assert left_on_the_machine(tmp_path) == [f"mount {inside}"]
    finally:
        subprocess.run(["umount", str(inside)], check=True)
    assert left_on_the_machine(tmp_path) == []


@pytest.mark.kernel
def test_a_story_that_ends_while_mounted_leaves_nothing() -> None:
    """What is not true while a volume is in use is told, and nothing stays mounted or attached."""

    def tell(stage: Stage) -> Iterator[Told]:
        node = stage.nodes[0]
        claim = stage.controller.create("data")
        node.kubelet.mount(claim, stage.controller.attach(claim, node.name))
        yield Told("mounted", "and then")
        hold(False, "something is not so")

    code, printed = played(root=True, story=(Chapter("A chapter", tell, kernel=True),))
    assert code == 1
    assert "not true: something is not so" in printed
    assert "left on this machine" not in printed


@pytest.mark.kernel
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_demo_leaves_nothing(number: signal.Signals) -> None:
    """SIGTERM and Ctrl-C in the middle of the story end its processes, mounts and loop devices too."""
    process = subprocess.Popen(
        [sys.executable, "-m", "companion", "demo", "--plain"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "formatted and mounted" in line:
            process.send_signal(number)
            break
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(60) == 1
    assert "stopped before its end" in rest
    assert "left on this machine" not in rest


def test_hold_raises_only_for_what_is_not_so() -> None:
    """A truth passes, an untruth raises with its sentence."""
    hold(True, "never said")
    with pytest.raises(Untrue, match="the sentence"):
        hold(False, "the sentence")
