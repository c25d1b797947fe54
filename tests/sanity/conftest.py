"""The real tools are the same as for the real API server."""

from tests.real.conftest import tools_dir

__all__ = ["tools_dir"]
