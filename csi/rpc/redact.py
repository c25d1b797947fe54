"""What of a request may be shown. Pure.

Fields that csi.proto marks `csi_secret` are never shown, whatever they are called; of a mount option only the
name, because "`mount_flags` MAY contain sensitive information" (CSI spec, VolumeCapability).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from google.protobuf.json_format import MessageToDict

from csi._pb import csi_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message

Shown: TypeAlias = "str | float | list[Shown] | dict[str, Shown]"

HIDDEN: Final = "***"
MAX_TEXT: Final = 256
"""Characters shown of one string: a log line stays a line, whatever a caller sends."""
MAX_ITEMS: Final = 32
"""Entries shown of one list or map."""
MIN_SECRET: Final = 4
"""A secret of fewer characters is not looked for in texts: it would hide innocent words."""


def shown(request: Message) -> dict[str, Shown]:
    """Return the fields that are set and may be logged, as plain values."""
    clean = type(request).FromString(request.SerializeToString())
    for part in list(_parts(clean)):
        if isinstance(part, csi_pb2.VolumeCapability.MountVolume):
            part.mount_flags[:] = [_option(flag)[0] for flag in part.mount_flags]
        for field in _secret_fields(part):
            part.ClearField(field.name)
    fields = MessageToDict(clean, preserving_proto_field_name=True)
    return {name: _cut(value) for name, value in fields.items()}


def mask(text: str, request: Message) -> str:
    """Return `text` with the request's secret values hidden, wherever an error may have quoted them."""
    for value in sorted(set(_secrets(request)), key=len, reverse=True):
        if len(value) >= MIN_SECRET:
            text = text.replace(value, HIDDEN)
    return text


def _secrets(request: Message) -> Iterator[str]:
    for part in _parts(request):
        if isinstance(part, csi_pb2.VolumeCapability.MountVolume):
            yield from (_option(flag)[1] for flag in part.mount_flags)
        for field in _secret_fields(part):
            yield from getattr(part, field.name).values()


def _option(flag: str) -> tuple[str, str]:
    name, _, value = flag.partition("=")
    return name, value


def _parts(message: Message) -> Iterator[Message]:
    """Yield the message and every message inside it; maps hold only strings in CSI."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for part in value if field.is_repeated else (value,):
                yield from _parts(part)


def _secret_fields(message: Message) -> list[FieldDescriptor]:
    """Return the fields that are set and marked; csi.proto marks only maps of strings."""
    return [field for field, _ in message.ListFields() if field.GetOptions().Extensions[csi_pb2.csi_secret]]


def _cut(value: Shown) -> Shown:
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}... ({len(value)} characters)"
    if isinstance(value, dict):
        return {key[:MAX_TEXT]: _cut(inner) for key, inner in list(value.items())[:MAX_ITEMS]}
    if isinstance(value, list):
        return [_cut(inner) for inner in value[:MAX_ITEMS]]
    return value
