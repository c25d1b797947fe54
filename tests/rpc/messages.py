"""Requests of every RPC, filled from csi.proto's descriptors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message_factory import GetMessageClass

from csi._pb import csi_pb2

if TYPE_CHECKING:
    import grpc
    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message

LIMIT = 10.0
"""Seconds after which a call of a test is lost."""
SERVICES = ("Identity", "Controller", "Node")


def methods() -> list[MethodDescriptor]:
    """Return the methods of the services that the driver serves."""
    return [method for name in SERVICES for method in csi_pb2.DESCRIPTOR.services_by_name[name].methods]


def path(method: MethodDescriptor) -> str:
    """Return the method's name on the wire."""
    return f"/{method.containing_service.full_name}/{method.name}"


def filled(method: MethodDescriptor, text: str, secret: str) -> Message:
    """Return a request with every field set: strings to `text`, secrets and mount options to `secret`.

    Only mutable_parameters stay empty, with which CreateVolume is refused before anything reads the rest.
    """
    message = GetMessageClass(method.input_type)()
    _fill(message, text, secret)
    if "mutable_parameters" in message.DESCRIPTOR.fields_by_name:
        message.ClearField("mutable_parameters")
    return message


def send(channel: grpc.Channel, method: str, raw: bytes) -> tuple[grpc.StatusCode, str]:
    """Send bytes as they are; return the answer's code and details."""
    multi: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
    call = multi.future(raw, timeout=LIMIT)
    return call.code(), call.details()


def _fill(message: Message, text: str, secret: str) -> None:
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value["key"] = secret if field.GetOptions().Extensions[csi_pb2.csi_secret] else text
        elif field.message_type is not None:
            _fill(value.add() if field.is_repeated else value, text, secret)
        elif field.name == "mount_flags":
            value.append(f"password={secret}")
        elif field.type == field.TYPE_STRING and not field.is_repeated:
            setattr(message, field.name, text)
        elif field.enum_type is not None and not field.is_repeated:
            setattr(message, field.name, field.enum_type.values[1].number)
