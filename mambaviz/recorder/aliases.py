"""Names that say nothing outside a file: requests are r0, r1, …, prefixes are numbers."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict

LONGEST_NAME = 40  # characters of a request's name in a file
REMEMBERED = 100_000  # prefixes whose first request is known
RETIRED = 10_000  # finished requests whose names are still known


class Aliases:
    """Stands between the engine's names and the file's.

    The number of a prefix is a keyed hash of the engine's own chain hash; the key is drawn
    anew for every recording and kept nowhere, so equal prefixes are seen to be equal, and no
    prompt can be found out by trying.
    """

    def __init__(self, keep_requests: bool = False) -> None:
        self._keep = keep_requests
        self._key = secrets.token_bytes(16)
        self._names: dict[str, str] = {}
        self._retired: OrderedDict[str, str] = OrderedDict()
        self._next = 0
        self._first: OrderedDict[int, str] = OrderedDict()

    def arrives(self, engine_id: str) -> str | None:
        """The name of a request that comes now; None for one that is there already."""
        if engine_id in self._names:
            return None
        self._retired.pop(engine_id, None)  # the engine uses the id again
        return self.request(engine_id)

    def request(self, engine_id: str) -> str:
        """The name of a request in this file, a finished one included."""
        name = self._names.get(engine_id) or self._retired.get(engine_id)
        if name is None:
            name = self._names[engine_id] = self._new_name(engine_id)
        return name

    def adopt(self, names: dict[str, str]) -> None:
        """Take over the names that another process of the same engine gave."""
        self._names.update(names)

    def retire(self, engine_id: str) -> None:
        """The request is over; its name is kept for a while, in case it turns up again."""
        name = self._names.pop(engine_id, None)
        if name is not None:
            self._retired[engine_id] = name
            if len(self._retired) > RETIRED:
                self._retired.popitem(last=False)

    def prefix(self, chain_hash: object) -> int:
        """The number of a prefix."""
        raw = chain_hash if isinstance(chain_hash, bytes) else repr(chain_hash).encode()
        return int.from_bytes(hashlib.blake2b(raw, key=self._key, digest_size=6).digest(), "big")

    def owner(self, prefix: int, request: str) -> str:
        """The first request known to have a prefix; ``request`` where there was none."""
        first = self._first.setdefault(prefix, request)
        if len(self._first) > REMEMBERED:
            self._first.popitem(last=False)
        return first

    def _new_name(self, engine_id: str) -> str:
        number = self._next
        self._next += 1
        if not self._keep:
            return f"r{number}"
        short = engine_id[:LONGEST_NAME]
        return short if short not in self._names.values() else f"r{number}"
