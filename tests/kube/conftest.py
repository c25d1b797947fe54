"""What several tests of kube need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.real.certificates import make_certificates

if TYPE_CHECKING:
    from tests.real.certificates import Certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return an authority and a certificate of it for 127.0.0.1."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))
