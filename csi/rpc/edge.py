"""What surrounds every RPC: admission, size limits, the deadline, one log line, one metric, one code.

One function around all methods instead of a chain of gRPC interceptors: an interceptor sees neither request
nor outcome without wrapping the next handler again, and the order of the steps would stand nowhere.
"""

from __future__ import annotations

import threading
import time
import traceback
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import grpc
import structlog
from google.protobuf.message import DecodeError, Message
from prometheus_client import Histogram

from csi.deadline import Deadline, seconds_to_wait
from csi.errors import CsiError, InvalidArgument, Unavailable
from csi.model import DRIVER_NAME
from csi.rpc.redact import mask, shown
from csi.rpc.status import code_of, go_name
from csi.rpc.validation import check_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from prometheus_client import CollectorRegistry

log = structlog.get_logger()

Answer: TypeAlias = "Callable[[Message, Deadline], Message]"

BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)
"""Seconds; the sidecars' (csi-lib-utils), so that their dashboards fit."""
MAX_DETAILS: Final = 1024
"""Bytes of an error that a caller gets: as long as an Event's text, and below gRPC's limit of 8 KiB even when
every byte travels as three."""


class Admission:
    """How many working RPCs of a service may run at once, so that threads are left for the others."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free = threading.Semaphore(limit)

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Hold one of the places; raises Unavailable at once when all are taken."""
        if not self._free.acquire(blocking=False):
            raise Unavailable(f"{self._limit} calls are running, which is all this driver takes; call again")
        try:
            yield
        finally:
            self._free.release()


@dataclass(frozen=True, slots=True)
class Rpc:
    """One method of a service. `path` is the method's name on the wire."""

    path: str
    request_type: type[Message]
    answer: Answer
    admission: Admission | None
    """None for what must always be answered: probes, info, capabilities, refusals."""

    def enter(self) -> AbstractContextManager[None]:
        """Hold a place while the method works."""
        return self.admission.enter() if self.admission else nullcontext()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an RPC has no response; `text` shows no secret of the request."""

    code: grpc.StatusCode
    text: str


class Edge:
    """Serves RPCs. `max_wait`: seconds that a call may wait if its caller gives it longer, or no limit."""

    def __init__(self, max_wait: float, registry: CollectorRegistry) -> None:
        self._deadlines = Deadlines(max_wait)
        self._seconds = Histogram(
            "csi_plugin_operations_seconds",
            "Time that CSI calls took, by method and gRPC code.",
            ("driver_name", "method_name", "grpc_status_code"),
            buckets=BUCKETS,
            registry=registry,
        )

    def serve(self, rpc: Rpc, raw: bytes, context: grpc.ServicerContext) -> Message:
        """Answer one call; never ends in UNKNOWN, whatever happens inside."""
        began = time.monotonic()
        request = rpc.request_type()
        result = self._result(rpc, request, raw, context)
        self._record(rpc, request, result, time.monotonic() - began)
        if isinstance(result, Failure):
            context.abort(result.code, result.text.encode()[:MAX_DETAILS].decode(errors="ignore"))
        return result

    def stop(self) -> None:
        """End the waiting of all calls, running and coming: the driver stops."""
        self._deadlines.stop()

    def running(self) -> int:
        """Return how many calls are being served."""
        return self._deadlines.count()

    def _result(
        self, rpc: Rpc, request: Message, raw: bytes, context: grpc.ServicerContext
    ) -> Message | Failure:
        try:
            with rpc.enter(), self._deadlines.of(context) as deadline:
                _read(request, raw)
                check_sizes(request)
                return rpc.answer(request, deadline)
        except CsiError as error:
            return Failure(code_of(error), mask(error.message, request))
        except Exception as fault:  # noqa: BLE001 - the edge of an RPC: logged, and never UNKNOWN
            return _fault(rpc, request, fault)

    def _record(self, rpc: Rpc, request: Message, result: Message | Failure, seconds: float) -> None:
        failure = result if isinstance(result, Failure) else None
        code = go_name(failure.code if failure else grpc.StatusCode.OK)
        self._seconds.labels(DRIVER_NAME, rpc.path, code).observe(seconds)
        fields = {"method": rpc.path, "code": code, "seconds": round(seconds, 3), "request": shown(request)}
        if failure:
            log.warning("call", **fields, error=failure.text)
        elif rpc.admission:
            log.info("call", **fields)
        else:
            log.debug("call", **fields)


class Deadlines:
    """The deadlines of the calls that are being served."""

    def __init__(self, max_wait: float) -> None:
        self._max_wait = max_wait
        self._guard = threading.Lock()
        self._live: set[Deadline] = set()
        self._stopped = False

    @contextmanager
    def of(self, context: grpc.ServicerContext) -> Iterator[Deadline]:
        """Yield a deadline that ends with the caller's time, `max_wait`, its cancellation, or our stop."""
        deadline = Deadline(seconds_to_wait(context.time_remaining(), self._max_wait))
        with self._guard:
            self._live.add(deadline)
            stopped = self._stopped
        if stopped:
            deadline.stop()
        if not context.add_callback(deadline.cancel):
            deadline.cancel()
        try:
            yield deadline
        finally:
            with self._guard:
                self._live.discard(deadline)

    def stop(self) -> None:
        """Stop every deadline, those to come too."""
        with self._guard:
            self._stopped = True
            live = list(self._live)
        for deadline in live:
            deadline.stop()

    def count(self) -> int:
        """Return how many calls are being served."""
        with self._guard:
            return len(self._live)


def _fault(rpc: Rpc, request: Message, fault: Exception) -> Failure:
    lines = "".join(traceback.format_exception(fault))
    log.error("fault", method=rpc.path, exception=mask(lines, request))
    text = f"the driver failed ({type(fault).__name__}); its log has the traceback"
    return Failure(grpc.StatusCode.INTERNAL, text)


def _read(request: Message, raw: bytes) -> None:
    try:
        request.MergeFromString(raw)
    except DecodeError as error:
        raise InvalidArgument(f"the request is no {request.DESCRIPTOR.name}: {error}") from error
