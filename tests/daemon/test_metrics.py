"""The metrics port."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry, Counter

from daemon.metrics import MetricsServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["127.0.0.1", ""])
def base(request: pytest.FixtureRequest) -> Iterator[str]:
    registry = CollectorRegistry()
    Counter("moves", "Moves made.", registry=registry).inc()
    server = MetricsServer(request.param, 0, registry)
    yield f"http://127.0.0.1:{server.port}"
    server.close()


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - an address of this test's own server
        body: bytes = answer.read()
    return body.decode()


def test_metrics_shows_the_registry(base: str) -> None:
    """/metrics shows what the registry holds, and nothing of other registries."""
    assert "moves_total 1.0" in read(f"{base}/metrics")
    assert "python_info" not in read(f"{base}/metrics")


def test_healthz_answers(base: str) -> None:
    """/healthz answers while the process lives."""
    assert read(f"{base}/healthz") == "ok\n"


def test_another_path_says_what_is_served(base: str) -> None:
    """Another path is 404 and names the paths that exist."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        read(f"{base}/debug")
    with refused.value as answer:
        assert answer.code == 404
        assert b"/metrics" in answer.read()
