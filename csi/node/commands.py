"""Start programs: the only module of the node half that does.

Argument lists, never a shell; `LC_ALL=C`, so that what we read back is what we know; no input; bounded
output; a time limit after which the whole process group is killed. The trap: a program that waits for a dead
device is in uninterruptible sleep and survives even SIGKILL. It is then given to a thread that waits for its
end, and the caller gets `Hung`, which keeps the volume busy until that end.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

import structlog

from csi.errors import Broken, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable

OUTPUT_LIMIT: Final = 64 * 1024
"""Bytes kept of each output; the rest is read and dropped."""
KILL_GRACE: Final = 2.0
"""Seconds a killed program has to end before it counts as hung."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended. `code` is its exit code, negative for a signal."""

    code: int
    output: str
    errors: str

    @property
    def complaint(self) -> str:
        """What it said, for people: its errors on one line, else its exit code."""
        return " ".join(self.errors.split()) or f"exit code {self.code}"


class TookTooLong(TimedOut):
    """The program did not end in time and was killed. What it was to do may or may not be done."""


class Hung(TookTooLong):
    """The program was killed but is not dead; `ended` is set when it is."""

    def __init__(self, message: str, ended: threading.Event) -> None:
        super().__init__(message)
        self.ended = ended


class Commands:
    """Runs programs found on the PATH. Thread-safe. `kill` ends a process group; `grace` is in seconds."""

    def __init__(
        self, *, kill: Callable[[int, signal.Signals], None] = os.killpg, grace: float = KILL_GRACE
    ) -> None:
        self._kill_group = kill
        self._grace = grace

    def run(self, *argv: str, seconds: float | None) -> Finished:
        """Run a program to its end, or for `seconds`; None means however long it takes.

        A non-zero exit code is an answer, not an error. Raises TookTooLong, Hung, and Broken when the program
        is not installed.
        """
        ends = None if seconds is None else time.monotonic() + seconds
        child = _start(argv)
        try:
            output, errors = _collect(child, ends)
            child.wait(_left(ends))
        except subprocess.TimeoutExpired:
            raise self._kill(child, argv, seconds or 0.0) from None
        finally:
            _close(child)
        return Finished(child.returncode, output, errors)

    def _kill(self, child: subprocess.Popen[bytes], argv: tuple[str, ...], seconds: float) -> TookTooLong:
        """Kill the program and all it started; return the error that says how that went."""
        with contextlib.suppress(ProcessLookupError):
            self._kill_group(child.pid, signal.SIGKILL)
        line = " ".join(argv)
        try:
            child.wait(self._grace)
        except subprocess.TimeoutExpired:
            log.warning("program hangs", command=line, pid=child.pid)
            return Hung(
                f"`{line}` hangs and cannot be killed; the volume stays busy until it ends", _reap(child)
            )
        return TookTooLong(
            f"`{line}` did not end within {seconds:.1f} s and was killed; it is safe to call again"
        )


def _start(argv: tuple[str, ...]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError as error:
        raise Broken(f"{argv[0]} cannot be started on this node: {error}") from error


def _collect(child: subprocess.Popen[bytes], ends: float | None) -> tuple[str, str]:
    """Read both outputs until they are closed; subprocess.TimeoutExpired at `ends`."""
    kept = {_fd(child.stdout): bytearray(), _fd(child.stderr): bytearray()}
    with selectors.DefaultSelector() as selector:
        for fd in kept:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            if _left(ends) == 0:
                raise subprocess.TimeoutExpired(child.args, 0)
            for key, _ in selector.select(_left(ends)):
                chunk = os.read(key.fd, OUTPUT_LIMIT)
                kept[key.fd] += chunk[: OUTPUT_LIMIT - len(kept[key.fd])]
                if not chunk:
                    selector.unregister(key.fd)
    output, errors = (bytes(text).decode("utf-8", "replace") for text in kept.values())
    return output, errors


def _reap(child: subprocess.Popen[bytes]) -> threading.Event:
    """Wait for the child in a thread of its own; the event is set at its end."""
    ended = threading.Event()

    def wait() -> None:
        child.wait()
        ended.set()

    threading.Thread(target=wait, name=f"reap-{child.pid}", daemon=True).start()
    return ended


def _close(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _fd(pipe: IO[bytes] | None) -> int:
    if pipe is None:
        raise Broken("a program was started without its pipes")
    return pipe.fileno()


def _left(ends: float | None) -> float | None:
    return None if ends is None else max(0.0, ends - time.monotonic())
