"""Where the driver listens, and how a socket's name is taken and given back.

The trap: drivers are restarted in any order. A socket left by a dead driver must not keep the next one from
starting, and neither the start nor the end of one driver may take away a socket on which another one answers.
So the socket is made under a name of its own and renamed into place once it serves, under a lock on its
folder; and it is removed only while it is still the one that was made.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SOCKET_PATH: Final = 107 - len(".new-4194304")
"""Bytes: sun_path without its NUL, less what the name is lengthened by while the socket is being made."""
SOCKET_UMASK: Final = 0o117
"""Sockets are made 0660: whoever may write to one commands the driver."""
ANSWER_LIMIT: Final = 1.0
"""Seconds to wait for a sign of life on a socket that is there already."""
LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


class EndpointError(Exception):
    """The endpoint cannot be had; the text says why."""


@dataclass(frozen=True, slots=True)
class UnixEndpoint:
    """A socket in the file system."""

    path: Path


@dataclass(frozen=True, slots=True)
class TcpEndpoint:
    """A loopback port, for tests: nothing guards it. Port 0 takes a free one."""

    host: str
    port: int


Endpoint: TypeAlias = UnixEndpoint | TcpEndpoint


def parse_endpoint(text: str) -> Endpoint:
    """Read `unix:///path`, `unix:path` or `tcp://loopback:port`; raises ValueError with the reason."""
    scheme, _, rest = text.partition(":")
    match scheme.lower():
        case "unix":
            return _unix(rest)
        case "tcp":
            return _tcp(rest.removeprefix("//"))
        case _:
            raise ValueError(f"{text!r} is neither unix:///path nor tcp://127.0.0.1:port")


def _unix(rest: str) -> UnixEndpoint:
    path = rest.removeprefix("//")
    if not path or (rest.startswith("//") and not path.startswith("/")):
        raise ValueError(f"unix:{rest} names no absolute path; write unix:///path/to/csi.sock")
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        raise ValueError(f"{path} is too long for a socket: at most {MAX_SOCKET_PATH} bytes")
    return UnixEndpoint(Path(path))


def _tcp(rest: str) -> TcpEndpoint:
    host, _, port = rest.rpartition(":")
    if host not in LOOPBACK:
        raise ValueError(f"tcp://{rest} is open to others; only {', '.join(LOOPBACK)} can be listened on")
    if not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ValueError(f"tcp://{rest} has no port between 0 and 65535")
    return TcpEndpoint(host, int(port))


class SocketName:
    """The name of one socket while this process holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ours: tuple[int, int] | None = None

    @contextmanager
    def taken(self) -> Iterator[Path]:
        """Yield the path at which the socket must be made to serve; on leaving it gets its own name.

        Raises EndpointError when another driver answers there, or something that is no socket is in the way.
        """
        try:
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise EndpointError(f"{self._path.parent}: {error.strerror}") from error
        umask = os.umask(SOCKET_UMASK)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            _refuse_if_in_use(self._path)
            made = self._path.with_name(f"{self._path.name}.new-{os.getpid()}")
            yield made
            self._ours = _identity(made)
            made.rename(self._path)
        finally:
            os.umask(umask)
            os.close(folder)

    def give_back(self) -> None:
        """Remove the socket if it is still the one that was made here."""
        if self._ours is not None and _identity(self._path) == self._ours:
            self._path.unlink()
        self._ours = None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _refuse_if_in_use(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise EndpointError(f"{path} exists and is no socket; it is left alone")
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(ANSWER_LIMIT)
        try:
            caller.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except OSError as error:
            raise EndpointError(f"{path} may be in use: {error}") from error
    raise EndpointError(f"{path} is in use: another driver answers there")
