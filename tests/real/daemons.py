"""Programs that a test starts on a free port, waits for, and always ends.

The trap: a free port is only free until somebody else takes it. Whoever starts a program here must be able to
prove that what answers on the port is that program (ours do by their certificates), and tries once more on
`PortTakenError`.
"""

from __future__ import annotations

import contextlib
import http
import http.client
import socket
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LOOPBACK = "127.0.0.1"
POLL_INTERVAL = 0.05
CALL_LIMIT = 5.0
LOG_LINES = 20


class DaemonError(Exception):
    """A program that was started did not come up; the text holds the end of its log."""


class PortTakenError(DaemonError):
    """A program that was started found its port taken by another one."""


def free_port() -> int:
    """Return a loopback TCP port that nothing listens on at this moment."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        port: int = listener.getsockname()[1]
    return port


@contextlib.contextmanager
def running(
    command: Sequence[str | Path], log: Path, *, stop_limit: float
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program with its output in a file, and end it by its own process id on the way out.

    The kernel ends it as well when the thread that started it dies, so that a test run that is killed leaves
    nothing: call this from a thread that lives as long as the program shall, such as the main one.
    """
    guarded = ["setpriv", "--pdeathsig", "KILL", "--", *map(str, command)]
    with log.open("wb") as output:
        # In a session of its own, Ctrl-C reaches the test run alone, which ends its programs in their order.
        process = subprocess.Popen(
            guarded,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process, stop_limit)


def _end(process: subprocess.Popen[bytes], limit: float) -> None:
    process.terminate()
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until_ready(
    process: subprocess.Popen[bytes], log: Path, port: int, trust: ssl.SSLContext, *, limit: float
) -> None:
    """Return once /readyz on this port answers 200 over TLS that `trust` accepts; the limit is in seconds.

    Raises PortTakenError or DaemonError when the program ends before that, and DaemonError after the limit.
    """
    end = time.monotonic() + limit
    while not _answers(port, trust):
        if process.poll() is not None:
            raise _failure(log, f"it ended with code {process.returncode}")
        if time.monotonic() > end:
            raise _failure(log, f"it was not ready on port {port} within {limit:g} s")
        time.sleep(POLL_INTERVAL)


def _answers(port: int, trust: ssl.SSLContext) -> bool:
    connection = http.client.HTTPSConnection(LOOPBACK, port, timeout=CALL_LIMIT, context=trust)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (http.client.HTTPException, OSError):
            return False


def _failure(log: Path, what: str) -> DaemonError:
    text = log.read_text(errors="replace")
    kind = PortTakenError if "address already in use" in text else DaemonError
    tail = "\n".join(text.splitlines()[-LOG_LINES:])
    return kind(f"{log.stem}: {what}; the end of its log:\n{tail}")
