"""What a failed call to the host means for the RPC that made it. Pure, but for raising.

The trap: a code that the sidecars take for final makes them forget a volume. Whatever leaves it open whether
a write took place is Unavailable, and only a refusal, a missing right or a used-up quota is final.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from csi.errors import Busy, CsiError, Denied, Exhausted, InUse, InvalidArgument, Unavailable
from harvester.refusals import Meaning, Refusal, read_refusal
from kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def host_call(doing: str) -> Iterator[None]:
    """Turn an ApiError of the host into the domain error that it means; `doing` begins its sentence."""
    try:
        yield
    except ApiError as error:
        raise failure(error, doing) from error


def failure(error: ApiError, doing: str) -> CsiError:
    """Return the domain error for an API error that the caller has no better use for.

    A 404 is no NotFound here: only who looked for a volume may say that it does not exist.
    """
    if refusal := read_refusal(error):
        return _refused(refusal, doing)
    match error:
        case Forbidden():
            return Denied(f"{doing}: the host's role for this cluster does not allow it: {error.message}")
        case Conflict():
            return Busy(f"{doing}: somebody else changed it at the same time; call again ({error.message})")
        case Invalid():
            return InvalidArgument(f"{doing}: the host does not accept it: {error.message}")
        case Unauthorized():
            return Unavailable(f"{doing}: the host does not accept our credential: {error.message}")
        case NotFound():
            return Unavailable(f"{doing}: the host does not know it: {error.message}")
        case _:
            return Unavailable(f"{doing}: no answer from the host, the outcome is unknown: {error.message}")


def _refused(refusal: Refusal, doing: str) -> CsiError:
    said = f"{doing}: the host refuses: {refusal.words}"
    if refusal.meaning is Meaning.QUOTA:
        return Exhausted(f"{said}; ask the platform team for more, or free some")
    return Unavailable(said) if refusal.passing else InUse(said)
