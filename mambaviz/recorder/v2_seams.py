"""What is read at the V2 runner, whose rows and counts lie on the device, by request slot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mambaviz.recorder.head import read
from mambaviz.recorder.seams import Bound, Seam
from mambaviz.recorder.values import Later, is_tensor, later
from mambaviz.recorder.worker import MODULES, Worker

RUNNER, STATE = MODULES["v2"]


@dataclass(frozen=True)
class Batch:
    """The batch of a step: names in the order of its rows, and the slot of each."""

    slots: dict[str, int]
    idx_mapping: Any  # the engine's own tensor, to know the batch again by

    def of(self, by_slot: list[int]) -> dict[str, int]:
        """The entries of a per-slot array that belong to this batch."""
        return {name: int(by_slot[slot]) for name, slot in self.slots.items()}


@dataclass
class RowLengths:
    """How long each request's rows were, one length a group, when they were last written out."""

    known: dict[str, list[int]] = field(default_factory=dict)

    def keep_only(self, names: Iterable[str]) -> None:
        for name in self.known.keys() - set(names):
            del self.known[name]

    def grown(self, name: str, lengths: list[int]) -> list[tuple[int, int]] | None:
        """Columns to write a group, from one to before another; None where no row grew."""
        before = self.known.get(name)
        self.known[name] = lengths
        if before == lengths:
            return None
        return list(zip(before or [0] * len(lengths), lengths, strict=True))


class V2Seams:
    """Turns calls of the V2 runner into lines.

    What lies on the device is copied behind the kernels that wrote it, and the writer waits for
    it. Of the rows only the columns that were appended are read: the others never change.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._session = worker.session
        self._lengths = RowLengths()
        self._restarts = 0
        self._batch: Batch | None = None

    def seams(self) -> list[Seam]:
        return [
            Seam(
                "metadata",
                RUNNER,
                "GPUModelRunner.initialize_kv_cache",
                (),
                after=self.runner_ready,
            ),
            Seam(
                "rows",
                RUNNER,
                "GPUModelRunner.prepare_inputs",
                ("scheduler_output",),
                before=self.step_begins,
            ),
            Seam(
                "pre_copy",
                STATE,
                "MambaHybridModelState.preprocess_state",
                ("input_batch", "block_tables", "num_computed_tokens"),
                before=self.batch_stands,
                after=self.pre_copied,
            ),
            Seam(
                "post_copy",
                STATE,
                "MambaHybridModelState.postprocess_state",
                ("idx_mapping", "num_sampled", "num_computed_tokens"),
                before=self.tokens_verified,
                after=self.post_copied,
            ),
        ]

    def runner_ready(self, bound: Bound, _found: Any, _result: Any) -> None:
        """The V2 runner has its metadata builders."""
        self._worker.meet(bound["self"], "v2")

    # ----------------------------------------------------------------------------- rows

    def step_begins(self, bound: Bound) -> None:
        """A scheduler's output has been taken over; whose rows were written anew is in it."""
        if self._worker.runner is not bound["self"]:  # it was there before the recorder was
            self.runner_ready(bound, None, None)
        self._worker.begin()
        output = bound["scheduler_output"]
        self._worker.take_step(output)
        anew = [request.req_id for request in output.scheduled_new_reqs]
        anew += getattr(output, "block_table_updates", None) or ()
        for name in self._worker.names(anew):
            self._lengths.known.pop(name, None)

    def batch_stands(self, bound: Bound) -> dict[str, Any]:
        """The rows are in their final order, and nothing was copied yet."""
        session, batch, state = self._session, bound["input_batch"], bound["self"]
        if self._restarts != session.restarts:
            self._restarts = session.restarts
            self._lengths.known.clear()
        names = self._worker.names(batch.req_ids)
        slots = [int(slot) for slot in batch.idx_mapping_np]
        now = self._batch = Batch(dict(zip(names, slots, strict=True)), batch.idx_mapping)
        rows = self._rows(bound["block_tables"])
        computed = later(bound["num_computed_tokens"])
        counts = later(state.num_accepted_tokens_gpu)
        drafts = read(self._worker.runner, "vllm_config.speculative_config") is not None
        step = self._worker.step

        def event() -> dict[str, Any]:
            line = {
                "event": "rows",
                "step": step,
                "order": names,
                "rows": {
                    name: [_cut(start, ids()) for start, ids in cuts] for name, cuts in rows.items()
                },
                "computed": now.of(computed()),
                "slots": now.slots,
            }
            return line | ({"accepted": now.of(counts())} if drafts else {})

        session.emit(event)
        return {"accepted": counts, "columns": _on_device(state, "_mamba_state_idx_gpu")}

    def _rows(self, tables: tuple[Any, ...]) -> dict[str, list[tuple[int, Later]]]:
        """What the gathered tables hold where a row grew: its first column, and its ids."""
        assert self._batch is not None
        own = self._worker.runner.block_tables
        # An older engine splits an attention block: its row has that many ids for one.
        split = getattr(own, "blocks_per_kv_block", None) or [1] * len(tables)
        rows = {}
        self._lengths.keep_only(self._batch.slots)
        for index, (name, slot) in enumerate(self._batch.slots.items()):
            cuts = self._lengths.grown(name, [int(n) for n in own.num_blocks.np[:, slot]])
            if cuts is None:
                continue
            rows[name] = [
                (start // parts, _whole_blocks(table[index, start:end], parts))
                for table, parts, (start, end) in zip(tables, split, cuts, strict=True)
            ]
        return rows

    # -------------------------------------------------------------------------- pre-copy

    def pre_copied(self, bound: Bound, found: dict[str, Any], _result: Any) -> None:
        state, now, step = bound["self"], self._batch, self._worker.step
        before: Later | None = found["columns"]
        if before is None or now is None:  # not align mode: nothing is copied
            return
        columns = later(state._mamba_state_idx_gpu)  # the engine's own names
        sources = later(state._mamba_src_col_gpu)
        biases = later(state._mamba_src_off_gpu)
        counts = later(state.num_accepted_tokens_gpu)
        in_use = self._worker.runner.req_states.req_id_to_index
        every = Batch(
            dict(zip(self._worker.names(list(in_use)), in_use.values(), strict=True)), None
        )

        def event() -> dict[str, Any]:
            values = {
                "column": now.of(columns()),
                "accepted": now.of(found["accepted"]()),
                "accepted_out": now.of(counts()),
            }
            source, bias = now.of(sources()), now.of(biases())
            rows = []
            for name in now.slots:
                row = {"id": name} | {key: entries[name] for key, entries in values.items()}
                row["copies"] = source[name] >= 0 and source[name] != row["column"]
                if row["copies"]:
                    row |= {"src_col": source[name], "dst_col": row["column"], "bias": bias[name]}
                rows.append(row)
            return {
                "event": "pre_copy",
                "step": step,
                "columns_before": every.of(before()),
                "rows": rows,
            }

        self._session.emit(event)
        self._worker.states.after("pre-copy", step, self._worker.runner)

    # ----------------------------------------------------------------- accept, post-copy

    def tokens_verified(self, _bound: Bound) -> None:
        self._worker.states.after("forward", self._worker.step, self._worker.runner)

    def post_copied(self, bound: Bound, _found: Any, _result: Any) -> None:
        """How many tokens came out, the counts that were stored, and what the copy left of them."""
        now, step, sampled = self._batch, self._worker.step, bound["num_sampled"]
        if now is None or bound["idx_mapping"] is not now.idx_mapping or not is_tensor(sampled):
            return  # of an earlier batch: a rank of a pipeline that hears of it later
        self._session.accept_step = step
        state, context = bound["self"], getattr(bound["self"], "_mamba_ctx", None)
        kept, out = later(sampled), later(state.num_accepted_tokens_gpu)
        computed = bound.get("num_computed_tokens")
        if context is None or computed is None:
            self._session.emit(lambda: _accepted(step, now, kept(), out()))
            return
        # The copy's kernel reads from a snapshot, while it resets the array itself.
        stored = later(context.num_accepted_tokens_out)
        columns, new_computed = later(state._mamba_state_idx_gpu), later(computed)
        self._session.emit(lambda: _accepted(step, now, kept(), stored()))

        def copied() -> dict[str, Any]:
            values = {
                "accepted": now.of(stored()),
                "accepted_out": now.of(out()),
                "column": now.of(columns()),
                "new_computed": now.of(new_computed()),
            }
            rows = [
                {"id": name} | {key: entries[name] for key, entries in values.items()}
                for name in now.slots
            ]
            return {"event": "post_copy", "step": step, "rows": rows}

        self._session.emit(copied)
        self._worker.states.after("post-copy", step, self._worker.runner)


def _accepted(step: int, batch: Batch, kept: list[int], stored: list[int]) -> dict[str, Any]:
    """The line on what verification kept: how many came out, and the counts that were stored."""
    came_out = dict(zip(batch.slots, map(int, kept), strict=False))
    return {"event": "accept", "step": step, "counts": batch.of(stored), "sampled": came_out}


def _on_device(state: Any, name: str) -> Later | None:
    """An array that only align mode has."""
    array = getattr(state, name, None)
    return None if array is None else later(array)


def _whole_blocks(entries: Any, parts: int) -> Later:
    """Block ids out of a row in which every block has ``parts`` ids."""
    read_later = later(entries)
    return lambda: [int(entry) // parts for entry in read_later()[::parts]]


def _cut(start: int, ids: list[int]) -> dict[str, Any]:
    return {"start": start, "ids": ids} if start else {"ids": ids}
