"""What a CSI call can end in, in the words of the domain. csi.rpc maps each to one gRPC code.

    CsiError
    ├── InvalidArgument     the request is malformed or asks for what cannot be
    ├── NotFound            the volume, node or path does not exist
    ├── AlreadyExists       it exists, but not as asked
    ├── InUse               the state forbids it: attached elsewhere, refused (FAILED_PRECONDITION)
    ├── Busy                another call for the same thing is running (ABORTED)
    ├── Exhausted           a quota or a limit is reached
    ├── OutOfRange          a size that cannot be given
    ├── Unavailable         try again: the outcome is not final
    ├── TimedOut            the deadline came first; `message` says what was being waited for
    ├── Cancelled           the caller went away
    ├── Denied              the host's role does not allow it
    ├── Unimplemented       this half does not serve the call
    └── Broken              a fault of ours or of the machine's; final

Final or not matters: after work has begun on the host only Busy, Unavailable, TimedOut and Cancelled may be
raised until the outcome is known, else the sidecars forget the volume (external-provisioner, checkError).
"""

from __future__ import annotations


class CsiError(Exception):
    """A call that did not succeed. `message` says what was asked, what was found, and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidArgument(CsiError):
    """The request is malformed or asks for what cannot be."""


class NotFound(CsiError):
    """The volume, node or path does not exist."""


class AlreadyExists(CsiError):
    """It exists, but not as asked."""


class InUse(CsiError):
    """The state forbids it."""


class Busy(CsiError):
    """Another call for the same thing is running."""


class Exhausted(CsiError):
    """A quota or a limit is reached."""


class OutOfRange(CsiError):
    """A size that cannot be given."""


class Unavailable(CsiError):
    """Try again; the outcome is not final."""


class TimedOut(CsiError):
    """The deadline came first."""


class Cancelled(CsiError):
    """The caller went away."""


class Denied(CsiError):
    """The host's role does not allow it."""


class Unimplemented(CsiError):
    """This half does not serve the call."""


class Broken(CsiError):
    """A fault of ours or of the machine's."""
