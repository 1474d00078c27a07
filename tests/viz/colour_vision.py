"""How colours look to people who see them otherwise, and how far apart two of them are.

Deficiencies are simulated with the matrices of Machado, Oliveira and Fernandes (2009) for the
full deficiency, on linear RGB; grey is the luminance alone, as a bad projector or a printer
shows it. Distances are CIE 1976 in Lab (D65), where about 2.3 can just be told apart.
"""

from __future__ import annotations

from typing import Literal

Vision = Literal["usual", "protan", "deutan", "tritan", "grey"]
Triple = tuple[float, float, float]

MATRICES: dict[Vision, tuple[Triple, Triple, Triple]] = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritan": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
    "grey": ((0.2126, 0.7152, 0.0722),) * 3,
}
TO_XYZ: tuple[Triple, Triple, Triple] = (
    (0.4124, 0.3576, 0.1805),
    (0.2126, 0.7152, 0.0722),
    (0.0193, 0.1192, 0.9505),
)
WHITE: Triple = (0.9505, 1.0, 1.089)


def linear(colour: str) -> Triple:
    """``#RRGGBB`` as linear RGB from 0 to 1."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return red, green, blue


def _times(matrix: tuple[Triple, Triple, Triple], vector: Triple) -> Triple:
    first, second, third = (sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)
    return first, second, third


def seen(colour: str, vision: Vision) -> Triple:
    """Linear RGB of a colour as it looks with this vision."""
    red, green, blue = (min(max(c, 0.0), 1.0) for c in _times(MATRICES[vision], linear(colour)))
    return red, green, blue


def lab(rgb: Triple) -> Triple:
    x, y, z = (value / white for value, white in zip(_times(TO_XYZ, rgb), WHITE, strict=True))
    fx, fy, fz = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def distance(one: str, other: str, vision: Vision = "usual") -> float:
    pairs = zip(lab(seen(one, vision)), lab(seen(other, vision)), strict=True)
    return sum((a - b) ** 2 for a, b in pairs) ** 0.5


def luminance(colour: str, vision: Vision = "usual") -> float:
    """Relative luminance as WCAG defines it."""
    red, green, blue = seen(colour, vision)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str, vision: Vision = "usual") -> float:
    """Contrast ratio as WCAG defines it, 1 to 21."""
    light, dark = sorted((luminance(one, vision), luminance(other, vision)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
