"""Data as compact text for an address, and back."""

from __future__ import annotations

import base64
import binascii
import zlib

from pydantic import BaseModel

from mambaviz.limits import LONGEST_LINK, LONGEST_UNPACKED


def pack(data: BaseModel) -> str:
    """A scenario or batch as compact text for an address: what is no default, compressed."""
    text = data.model_dump_json(exclude_defaults=True)
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")


def unpacked(packed: str, what: str, shown: str) -> str:
    """The JSON in a packed text. Raises ValueError with a sentence: ``what`` is wrong with it,
    and what is ``shown`` instead."""
    if len(packed) > LONGEST_LINK:
        raise ValueError(
            f"{what} has {len(packed):,} characters where {LONGEST_LINK:,} can be, {shown}"
        )
    # Text from a stranger: a few bytes of zlib can unpack to gigabytes.
    decompressor = zlib.decompressobj()
    try:
        raw = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        text = decompressor.decompress(raw, LONGEST_UNPACKED).decode()
    except (binascii.Error, zlib.error, UnicodeError, ValueError):
        raise ValueError(f"{what} is damaged, {shown}") from None
    if decompressor.unconsumed_tail:
        raise ValueError(f"{what} unpacks to more than {LONGEST_UNPACKED:,} characters, {shown}")
    if not decompressor.eof:
        raise ValueError(f"{what} is damaged: its end is missing, {shown}")
    return text
