"""What several tests of kube need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.real.certificates import make_certificates

from .bench import PATIENT, TOKEN, Bench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kube.rest import Limits
    from tests.real.certificates import Certificates

    from .bench import MakeBench
    from .wire import Exchange


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return an authority and a certificate of it for 127.0.0.1."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def bench() -> Iterator[MakeBench]:
    """Return a maker of benches that are cleared away after the test."""
    made: list[Bench] = []

    def make(
        behave: Callable[[Exchange], None],
        token: str = TOKEN,
        limits: Limits = PATIENT,
        tls: Certificates | None = None,
    ) -> Bench:
        made.append(Bench(behave, token, limits, tls))
        return made[-1]

    yield make
    for each in made:
        each.close()
