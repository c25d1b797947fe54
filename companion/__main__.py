"""`harvester-companion`: the tool for people.

The simulated host is loaded only by the commands that start one, so that the others stay light.
"""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

import click
from rich.console import Console

from daemon.logs import configure_logs


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(importlib.metadata.version("harvester-companion"))
def main() -> None:
    """See the Harvester CSI driver at work, on a simulated Harvester host on this machine."""


@main.command()
@click.option("--plain", is_flag=True, help="Print without colours, for logs.")
def demo(plain: bool) -> None:
    """Play one guest volume's life through two nodes. As root: with real disks, file systems and mounts."""
    from companion.demo.run import run, stop_on_sigterm  # the simulated host is loaded only when called

    configure_logs("error", "auto")
    stop_on_sigterm()
    console = Console(no_color=plain, highlight=False, soft_wrap=True)
    raise SystemExit(run(console, root=os.geteuid() == 0))


@main.command()
@click.option(
    "--dir",
    "directory",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where kubeconfigs, disks and node roots go.",
)
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(1, 200), help="Guest nodes (VMs).")
@click.option(
    "--harvester", default="1.9", show_default=True, type=click.Choice(["1.9"]), help="Host version."
)
@click.option(
    "--profile",
    default="instant",
    show_default=True,
    type=click.Choice(["instant", "realistic"]),
    help="How long the host takes: at once, or as long as a real one.",
)
def simulate(directory: Path, nodes: int, harvester: str, profile: str) -> None:
    """Run a simulated Harvester host until SIGTERM or Ctrl-C."""
    from companion.simulate import run  # the simulated host is loaded only when called

    configure_logs("warning", "auto")
    run(directory, nodes=nodes, harvester=harvester, profile=profile)


if __name__ == "__main__":
    main()
