"""Records kept beside what they were made from: gzipped JSON without it, for it has a file."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

Record = TypeVar("Record", bound=BaseModel)


def write_without(path: Path, record: BaseModel, source: str) -> None:
    """Write a record but for its field ``source``; the same record always gives the same file."""
    text = record.model_dump_json(exclude={source})
    write_whole(path, gzip.compress(text.encode(), 9, mtime=0))


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, or leave the one that was there: on a full disk there are no halves."""
    path.parent.mkdir(exist_ok=True, parents=True)
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        unfinished.write_bytes(data)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_with(path: Path, model: type[Record], source: str, value: BaseModel) -> Record:
    """Inverse of `write_without`: the record with ``value`` as its field ``source``."""
    text = gzip.decompress(path.read_bytes()).decode()
    whole = f'{{"{source}":{value.model_dump_json()},{text[1:]}'
    return model.__pydantic_validator__.validate_json(whole)
