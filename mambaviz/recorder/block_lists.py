"""The cache manager's lists and registrations, as changes since the last line."""

from __future__ import annotations

from typing import Any

from mambaviz.recorder.cuts import Cuts
from mambaviz.recorder.seams import Bound
from mambaviz.recorder.session import Session

SMALL_POOL = 512  # blocks up to which the free queue is written out


class BlockLists:
    """What the lists held at the last `blocks` line, and what has been registered since."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cuts = Cuts()
        self._pool: Any = None
        self._kinds: list[str] = []
        self._names: dict[int, str] = {}  # block id -> what it is registered for
        self._changes: dict[int, str | None] = {}
        self._restarts = 0
        self._begin_anew: set[str] = set()
        self._engine_ids: dict[str, str] = {}  # of the requests in the cuts

    def watch(self, pool: Any, kinds: list[str]) -> None:
        self._pool = pool
        self._kinds = kinds

    def take_stock(self, scheduler: Any) -> None:
        """What is registered already when the recorder comes late: of whom, where a list says."""
        for manager in scheduler.kv_cache_manager.coordinator.single_type_managers:
            for engine_id, blocks in manager.req_to_blocks.items():
                request = scheduler.requests.get(engine_id)
                for block in blocks if request is not None else ():
                    if not block.is_null and block.block_hash is not None:
                        self._register(block, request, block.block_hash_num_tokens)
        for block in self._pool.blocks:
            if block.block_hash is not None and block.block_id not in self._names:
                self._set(block.block_id, f"@{block.block_hash_num_tokens}")

    # -------------------------------------------------------------------- registrations

    def registered_full(self, bound: Bound, _found: Any, _result: Any) -> None:
        """Full columns of a request's list may have been registered."""
        first, end = bound["num_cached_blocks"], bound["num_full_blocks"]
        if bound["self"] is not self._pool:
            return
        for column, block in enumerate(bound["blocks"][first:end], start=first):
            if not block.is_null and block.block_hash is not None:
                tokens = getattr(block, "block_hash_num_tokens", None)
                covered = (column + 1) * bound["block_size"] if tokens is None else tokens
                self._register(block, bound["request"], covered)

    def registered_partial(self, bound: Bound, _found: Any, _result: Any) -> None:
        """A column that is not full may have been: newer engines, finer hashes."""
        block = bound.get("block")
        if bound["self"] is self._pool and block is not None and block.block_hash is not None:
            self._register(block, bound["request"], block.block_hash_num_tokens)

    def registrations_moved(self, bound: Bound, _found: Any, _result: Any) -> None:
        """A registration went from one block to another."""
        pool, *blocks = bound.values()
        if pool is not self._pool or len(blocks) != 2:
            return
        source, target = blocks
        name = self._names.get(source.block_id)
        self._look(source)
        if name is not None and target.block_hash is not None:
            self._set(target.block_id, name)

    def blocks_taken(self, bound: Bound, _found: Any, result: Any) -> None:
        """Blocks taken for new data are registered no more."""
        if bound["self"] is self._pool:
            for block in result:
                if block.block_id in self._names:
                    self._look(block)

    def looked_over(self, bound: Bound, _found: Any, _result: Any) -> None:
        """Registrations were dropped: see which are left."""
        if bound["self"] is self._pool:
            for block_id in list(self._names):
                self._look(self._pool.blocks[block_id])

    def _look(self, block: Any) -> None:
        if block.block_hash is None and self._names.pop(block.block_id, None) is not None:
            self._changes[block.block_id] = None

    def _register(self, block: Any, request: Any, tokens: int | None) -> None:
        if tokens is None:
            return self._set(block.block_id, "")
        aliases = self._session.aliases
        link, rest = divmod(tokens, self._pool.hash_block_size)
        if rest or not 0 < link <= len(request.block_hashes):
            return self._set(block.block_id, f"@{tokens}")
        prefix = aliases.prefix(request.block_hashes[link - 1])
        owner = aliases.owner(prefix, aliases.request(request.request_id))
        return self._set(block.block_id, f"{owner}@{tokens}")

    def _set(self, block_id: int, name: str) -> None:
        if self._names.get(block_id) != name:
            self._names[block_id] = name
            self._changes[block_id] = name

    # ---------------------------------------------------------------------------- lists

    def after_schedule(self, step: int, scheduler: Any, scheduled: list[str]) -> None:
        """The `blocks` line of a step."""
        session = self._session
        managers = scheduler.kv_cache_manager.coordinator.single_type_managers
        event: dict[str, Any] = {"event": "blocks", "step": step}
        gone = self._gone(managers)
        whole = self._restarts != session.restarts
        if whole:
            self._restarts = session.restarts
            self._cuts.clear()
            self._changes = dict(self._names)
            scheduled = list(dict.fromkeys(id for m in managers for id in m.req_to_blocks))
            event["whole"] = True
        blocks = {engine_id: self._blocks(managers, engine_id) for engine_id in scheduled}
        event["lists"] = self._changed(blocks)
        if gone:
            event["gone"] = gone
        if self._changes:
            event["registered"] = {str(i): name for i, name in sorted(self._changes.items())}
            self._changes = {}
        refs = {
            str(block.block_id): int(block.ref_cnt)
            for engine_id, groups in blocks.items()
            if session.aliases.request(engine_id) in event["lists"]
            for group in groups
            for block in group
            if not block.is_null and block.ref_cnt != 1
        }
        if refs:
            event["refs"] = refs
        if len(self._pool.blocks) <= SMALL_POOL:
            free = self._pool.free_block_queue.get_all_free_blocks()
            event["free_queue"] = [block.block_id for block in free]
        remembered = self._remembered(managers, scheduled)
        if remembered:
            event["remembered"] = remembered
        session.emit(event)

    def preempted(self, name: str) -> None:
        """Its lists begin anew when it is resumed, even in the same step."""
        self._begin_anew.add(name)

    def _gone(self, managers: Any) -> list[str]:
        """Requests that hold nothing any more; the next lists of theirs begin anew."""
        gone = []
        for name in self._cuts.requests:
            engine_id = self._engine_ids[name]
            if not any(manager.req_to_blocks.get(engine_id) for manager in managers):
                del self._engine_ids[name]
                gone.append(name)
            if name in gone or name in self._begin_anew:
                self._cuts.forget(name)
        self._begin_anew.clear()
        return gone

    def _blocks(self, managers: Any, engine_id: str) -> list[list[Any]]:
        return [list(manager.req_to_blocks.get(engine_id, ())) for manager in managers]

    def _changed(self, blocks: dict[str, list[list[Any]]]) -> dict[str, Any]:
        lists = {}
        for engine_id, groups in blocks.items():
            name = self._session.aliases.request(engine_id)
            self._engine_ids[name] = engine_id
            cut = self._cuts.changed(name, [[b.block_id for b in group] for group in groups])
            if cut is not None:
                lists[name] = cut
        return lists

    def _remembered(self, managers: Any, scheduled: list[str]) -> dict[str, int]:
        for manager, kind in zip(managers, self._kinds, strict=False):
            columns = getattr(manager, "last_state_block_idx", None)
            if kind == "mamba" and columns is not None:
                name = self._session.aliases.request
                return {name(i): int(columns[i]) for i in scheduled if i in columns}
        return {}
