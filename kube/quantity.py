"""Quantities of bytes as Kubernetes writes them: `10Gi`, `1.5G`, `1e9`, `10737418240`.

The trap: `E` is both exa and an exponent: `1E` is a suffix, `1E3` is not.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Final

_FORM: Final = re.compile(
    r"(?P<number>\+?(?:\d{1,64}(?:\.\d{0,64})?|\.\d{1,64}))"
    r"(?:[eE](?P<exponent>[+-]?\d{1,2})|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)",
    re.ASCII,
)
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_FACTORS: Final[dict[str, Fraction]] = {
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{suffix: Fraction(1000) ** -power for power, suffix in enumerate("mun", start=1)},
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(_BINARY, start=1)},
}


def parse_bytes(quantity: str) -> int | None:
    """Return the bytes that a quantity means, rounded up as Kubernetes does; None where it is none."""
    form = _FORM.fullmatch(quantity)
    if form is None:
        return None
    factor = _FACTORS.get(form["suffix"] or "", Fraction(1)) * Fraction(10) ** int(form["exponent"] or 0)
    return math.ceil(Fraction(form["number"].rstrip(".")) * factor)


def format_bytes(count: int) -> str:
    """Write a number of bytes with the largest binary suffix that divides it: `10Gi`, `1026Mi`, `1000`."""
    suffix = ""
    for larger in _BINARY:
        if count == 0 or count % 1024:
            break
        count, suffix = count // 1024, larger
    return f"{count}{suffix}"
