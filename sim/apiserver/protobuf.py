"""The two objects that kubectl is seen to send as protobuf: of `auth can-i` and `create namespace`. Pure.

Everything else that comes as protobuf is refused with 415. The field numbers are Kubernetes' own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube.resources import ACCESS_REVIEWS, NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kube.objects import Json, Object
    from kube.resources import Resource

MAGIC: Final = b"k8s\x00"
_RAW: Final = 2
"""The field of the envelope (runtime.Unknown) that holds the object."""
_METADATA: Final = ("metadata", {1: "name"})
_ATTRIBUTES: Final = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
_PATH: Final = ("nonResourceAttributes", {1: "path", 2: "verb"})
MESSAGES: Final[Mapping[Resource, Json]] = {
    NAMESPACES: {1: _METADATA},
    ACCESS_REVIEWS: {
        2: ("spec", {1: ("resourceAttributes", dict(enumerate(_ATTRIBUTES, start=1))), 2: _PATH})
    },
}


def decode(body: bytes, message: Json) -> Object:
    """Return the fields of an enveloped object that `message` names. Raises ValueError or IndexError."""
    if not body.startswith(MAGIC):
        raise ValueError("no Kubernetes envelope")
    return next(_message(raw, message) for number, raw in _fields(body[len(MAGIC) :]) if number == _RAW)


def _message(data: bytes, message: Json) -> Object:
    found: Object = {}
    for number, value in _fields(data):
        match message.get(number):
            case str(name):
                found[name] = value.decode()
            case (name, inner):
                found[name] = _message(value, inner)
    return {name: value for name, value in found.items() if value}


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and contents of the length-delimited fields."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        size, at = _varint(data, at)
        match tag & 7:
            case 0:
                continue
            case 2:
                yield tag >> 3, data[at : at + size]
                at += size
            case _:
                raise ValueError("a wire type that these objects have not")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at
