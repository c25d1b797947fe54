"""Which gRPC code each domain error becomes. The one place where the two meet."""

from __future__ import annotations

from typing import Final

import grpc

from csi import errors

CODES: Final[tuple[tuple[type[errors.CsiError], grpc.StatusCode], ...]] = (
    (errors.InvalidArgument, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.NotFound, grpc.StatusCode.NOT_FOUND),
    (errors.AlreadyExists, grpc.StatusCode.ALREADY_EXISTS),
    (errors.InUse, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.Busy, grpc.StatusCode.ABORTED),
    (errors.Exhausted, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (errors.OutOfRange, grpc.StatusCode.OUT_OF_RANGE),
    (errors.Unavailable, grpc.StatusCode.UNAVAILABLE),
    (errors.TimedOut, grpc.StatusCode.DEADLINE_EXCEEDED),
    (errors.Cancelled, grpc.StatusCode.CANCELLED),
    (errors.Denied, grpc.StatusCode.PERMISSION_DENIED),
    (errors.Unimplemented, grpc.StatusCode.UNIMPLEMENTED),
    (errors.Broken, grpc.StatusCode.INTERNAL),
)
"""Looked up from the top with isinstance, so that a subclass has its parent's code unless it stands above."""


def code_of(error: errors.CsiError) -> grpc.StatusCode:
    """Return the gRPC code of a domain error."""
    return next((code for kind, code in CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def go_name(code: grpc.StatusCode) -> str:
    """Return the code as grpc-go writes it, for instance `DeadlineExceeded`.

    The sidecars' metrics spell codes so, and one dashboard shall serve theirs and ours.
    """
    match code:
        case grpc.StatusCode.OK:
            return "OK"
        case grpc.StatusCode.CANCELLED:
            return "Canceled"
        case _:
            return code.name.title().replace("_", "")
