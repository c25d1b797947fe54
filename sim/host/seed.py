"""Put a world on an API server: first the kinds, then what stands there before anybody comes."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from kube.errors import AlreadyExists
from kube.objects import items, name_of, namespace_of, text
from kube.resources import CRDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kube.client import Client
    from kube.objects import Object
    from kube.resources import Resource

DEFINITIONS: Final = Path(__file__).parent / "crds"
SERVED_LIMIT: Final = 20.0
"""Seconds until a server must serve a kind that was defined."""
POLL: Final = 0.05


@functools.cache
def definitions() -> tuple[Object, ...]:
    """Return the definitions of the host's own kinds, which nobody may change: reading them takes a while."""
    files = sorted(DEFINITIONS.glob("*.yaml"))
    return tuple(each for file in files for each in yaml.safe_load_all(file.read_text()))


def seed(api: Client, objects: Iterable[tuple[Resource, Object]]) -> None:
    """Create the host's kinds, then the objects; what is there already stays as it is."""
    install(api)
    for resource, obj in objects:
        with contextlib.suppress(AlreadyExists):
            api.create(resource, obj, namespace_of(obj) or None)


def install(api: Client) -> None:
    """Define the host's kinds and wait until they are served. Raises TimeoutError."""
    names = []
    for definition in definitions():
        names.append(name_of(definition))
        with contextlib.suppress(AlreadyExists):
            api.create(CRDS, definition)
    end = time.monotonic() + SERVED_LIMIT
    pause = threading.Event()
    while waiting := [name for name in names if not _is_served(api.get(CRDS, name))]:
        if time.monotonic() > end:
            raise TimeoutError(f"not served within {SERVED_LIMIT:.0f} s: {', '.join(waiting)}")
        pause.wait(POLL)


def _is_served(definition: Object) -> bool:
    conditions = items(definition, "status", "conditions")
    return any(text(c, "type") == "Established" and text(c, "status") == "True" for c in conditions)
