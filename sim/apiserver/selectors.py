"""Label and field selectors: from their text to a test of an object. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from kube.objects import dig, labels_of
from sim.apiserver.failures import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kube.objects import Object

    Test: TypeAlias = Callable[[Object], bool]
    LabelTest: TypeAlias = Callable[[Mapping[str, str]], bool]

NAME: Final = "metadata.name"
NAMESPACE: Final = "metadata.namespace"

_REQUIREMENTS: Final = re.compile(r",(?![^(]*\))")
_KEY: Final = r"\s*(?P<key>[A-Za-z0-9]([\w./-]*[A-Za-z0-9])?)"
_EXISTS: Final = re.compile(rf"\s*(?P<no>!)?{_KEY}\s*")
_EQUALS: Final = re.compile(rf"{_KEY}\s*(?P<operator>==|!=|=)\s*(?P<value>[\w.-]*)\s*")
_SET: Final = re.compile(rf"{_KEY}\s+(?P<operator>in|notin)\s*\((?P<values>[\w., -]*)\)\s*")
_FIELD: Final = re.compile(r"\s*(?P<key>[^=!\s]+)\s*(?P<operator>==|!=|=)\s*(?P<value>.*?)\s*")


def matcher(labels: str, fields: str, known_fields: Collection[str]) -> Test:
    """Return the test that both selectors mean; raises Failure (400) when one cannot be read."""
    label_tests = [_label_test(part) for part in _REQUIREMENTS.split(labels)] if labels.strip() else []
    field_tests = [_field_test(part, known_fields) for part in fields.split(",")] if fields.strip() else []

    def matches(obj: Object) -> bool:
        if not all(test(obj) for test in field_tests):
            return False
        return not label_tests or all(test(labels_of(obj)) for test in label_tests)

    return matches


def selected_name(fields: str) -> str:
    """Return the one name that a field selector asks for, or ""; roles can grant a list of that name only."""
    for part in fields.split(","):
        found = _FIELD.fullmatch(part)
        if found and found["key"] == NAME and found["operator"] != "!=":
            return found["value"]
    return ""


def _label_test(requirement: str) -> LabelTest:
    if found := _EXISTS.fullmatch(requirement):
        key, wanted = found["key"], not found["no"]
        return lambda labels: (key in labels) is wanted
    if found := _EQUALS.fullmatch(requirement):
        values, positive = {found["value"]}, found["operator"] != "!="
    elif found := _SET.fullmatch(requirement):
        values, positive = {value.strip() for value in found["values"].split(",")}, found["operator"] == "in"
    else:
        raise bad_request(f"unable to parse requirement: {requirement.strip()!r}")
    key = found["key"]
    # A missing label is unequal to every value, and in no set.
    return lambda labels: (labels.get(key) in values) is positive


def _field_test(requirement: str, known: Collection[str]) -> Test:
    found = _FIELD.fullmatch(requirement)
    if found is None:
        raise bad_request(f"invalid selector: {requirement!r}; can't understand {requirement!r}")
    key, value, positive = found["key"], found["value"], found["operator"] != "!="
    if key not in known:
        raise bad_request(f"field label not supported: {key}")
    path = key.split(".")
    return lambda obj: (_shown(obj, path) == value) is positive


def _shown(obj: Object, path: list[str]) -> str:
    value = dig(obj, *path)
    return str(value).lower() if isinstance(value, bool) else str(value or "")
