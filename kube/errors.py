"""What a Kubernetes API call can end in. API errors are ours; the library's never leave kube.client.

ApiError
├── NotFound           404 about the object: it does not exist
├── NotServed          404 by a server that does not have the kind: nothing is known of the object
├── Conflict           409 Conflict, and a failed JSON-patch `test` (422 without a cause of its own)
│   └── AlreadyExists  409 AlreadyExists
├── Forbidden          403 by authorization
├── Unauthorized       401
├── Invalid            400, 405, 415, 422 by the server itself
├── Refused            any code, by an admission webhook, with the webhook's words
├── TooManyRequests    429
├── Expired            410: the resourceVersion or the continue token is too old
└── Unreachable        no answer, a time limit, 5xx: the outcome of a write is unknown
"""

from __future__ import annotations


class ApiError(Exception):
    """A call that did not succeed. `message` holds the server's own words."""

    def __init__(self, message: str, *, code: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        """HTTP status; 0 when there was no answer."""
        self.reason = reason
        """The reason word of the Status object; "" when there was none."""


class NotFound(ApiError):
    """The object does not exist; on a create, its namespace."""


class NotServed(ApiError):
    """The server does not have the kind (or is no API server at all): no proof that an object is gone."""


class Conflict(ApiError):
    """Somebody else wrote first: read again and decide anew."""


class AlreadyExists(Conflict):
    """An object of that name is there already."""


class Forbidden(ApiError):
    """The role does not allow it."""


class Unauthorized(ApiError):
    """The credential is not (or no longer) accepted."""


class Invalid(ApiError):
    """The server found the request malformed."""


class Refused(ApiError):
    """An admission webhook said no; `webhook` is its name, `why` its words without the frame."""

    def __init__(self, message: str, *, webhook: str, why: str, code: int = 0, reason: str = "") -> None:
        super().__init__(message, code=code, reason=reason)
        self.webhook = webhook
        self.why = why


class TooManyRequests(ApiError):
    """The server asks for a pause of `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: float = 1.0, code: int = 429, reason: str = "") -> None:
        super().__init__(message, code=code, reason=reason)
        self.retry_after = retry_after


class Expired(ApiError):
    """The resourceVersion or the continue token is too old: list again."""


class Unreachable(ApiError):
    """No usable answer; whether a write took place is unknown."""
