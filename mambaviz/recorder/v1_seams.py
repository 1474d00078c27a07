"""What is read at the V1 runner: rows, copies, accepted counts."""

from __future__ import annotations

from typing import Any

from mambaviz.recorder.cuts import Cuts
from mambaviz.recorder.head import read
from mambaviz.recorder.seams import Bound, Seam
from mambaviz.recorder.values import Later, ints, is_tensor, later
from mambaviz.recorder.worker import MODULES, Worker

RUNNER, MAMBA = MODULES["v1"]


class V1Seams:
    """Turns calls of the V1 runner into lines."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._session = worker.session
        self._cuts = Cuts()
        self._restarts = 0
        self._copies: dict[str, dict[str, Any]] = {}
        self._forgotten: list[str] | None = None

    def seams(self) -> list[Seam]:
        return [
            Seam(
                "metadata",
                RUNNER,
                "GPUModelRunner.initialize_metadata_builders",
                (),
                after=self.runner_ready,
            ),
            Seam(
                "rows",
                RUNNER,
                "GPUModelRunner._prepare_inputs",
                ("scheduler_output",),
                after=self.batch_stands,
            ),
            Seam(
                "accept",
                RUNNER,
                "GPUModelRunner._update_states_after_model_execute",
                ("output_token_ids",),
                before=self.tokens_verified,
                after=self.step_over,
            ),
            Seam(
                "pre_copy",
                MAMBA,
                "preprocess_mamba",
                ("scheduler_output", "mamba_state_idx", "input_batch"),
                before=self.before_pre_copy,
                after=self.pre_copied,
            ),
            Seam(
                "pre_copy",
                MAMBA,
                "cleanup_mamba_state_idx",
                ("mamba_state_idx",),
                before=self.before_cleanup,
                after=self.cleaned_up,
            ),
            Seam(
                "pre_copy",
                MAMBA,
                "collect_mamba_copy_meta",
                ("src_block_idx", "dest_block_idx", "accept_token_bias", "req_state"),
                before=self.before_collect,
                after=self.copy_collected,
            ),
            Seam(
                "post_copy",
                MAMBA,
                "postprocess_mamba_align_gpu",
                ("bufs", "num_reqs", "num_accepted_tokens_gpu", "input_batch"),
                before=self.before_post_copy,
                after=self.post_copied,
            ),
        ]

    # ---------------------------------------------------------------------------- start

    def runner_ready(self, bound: Bound, _found: Any, _result: Any) -> None:
        """The V1 runner has its metadata builders."""
        self._worker.meet(bound["self"], "v1")

    # ----------------------------------------------------------------------------- rows

    def batch_stands(self, bound: Bound, _found: Any, _result: Any) -> None:
        """The rows are in their final order, and nothing was copied yet."""
        runner, session = bound["self"], self._session
        if self._worker.runner is not runner:  # it was there before the recorder was
            self.runner_ready(bound, None, None)
        self._worker.begin()
        step = self._worker.take_step(bound["scheduler_output"])
        if self._restarts != session.restarts:
            self._restarts = session.restarts
            self._cuts.clear()
        batch = runner.input_batch
        order = self._worker.names(batch.req_ids)
        rows = {}
        for index, (name, engine_id) in enumerate(zip(order, batch.req_ids, strict=True)):
            cut = self._cuts.changed(name, self._row(runner, index, runner.requests[engine_id]))
            if cut is not None:
                rows[name] = cut
        for name in set(self._cuts.requests) - set(order):
            self._cuts.forget(name)
        event: dict[str, Any] = {"event": "rows", "step": step, "order": order, "rows": rows}
        if not session.async_scheduling:
            event["computed"] = {
                name: int(runner.requests[engine_id].num_computed_tokens)
                for name, engine_id in zip(order, batch.req_ids, strict=True)
            }
        if self._counts_on_cpu(runner):
            counts = ints(batch.num_accepted_tokens_cpu, len(order))
            event["accepted"] = dict(zip(order, counts, strict=True))
        session.emit(event)

    def _row(self, runner: Any, index: int, request: Any) -> list[list[int] | None]:
        """A request's row, one list a group. A split attention block has other ids there."""
        rows: list[list[int] | None] = []
        for group, table in enumerate(runner.input_batch.block_table.block_tables):
            if getattr(table, "use_hybrid_blocks", False):
                rows.append([int(block) for block in request.block_ids[group]])
            else:
                length = int(table.num_blocks_per_row[index])
                rows.append([int(block) for block in table.block_table.np[index, :length]])
        return rows

    def _counts_on_cpu(self, runner: Any) -> bool:
        """Whether the CPU array holds the accepted counts (else it holds left-overs)."""
        if getattr(runner, "num_accepted_tokens_event", None) is None:
            return False
        mode = read(runner, "cache_config.mamba_cache_mode")
        return not getattr(runner, "use_async_scheduling", False) or mode == "align"

    # -------------------------------------------------------------------------- pre-copy

    def before_pre_copy(self, bound: Bound) -> dict[str, Any]:
        batch = bound["input_batch"]
        self._copies = {}
        self._forgotten = None
        counts = getattr(batch, "num_accepted_tokens_cpu", None)
        has_counts = counts is not None and self._counts_on_cpu(self._worker.runner)
        return {
            "columns": dict(bound["mamba_state_idx"]),
            "accepted": ints(counts, len(batch.req_ids)) if has_counts else None,
        }

    def before_cleanup(self, bound: Bound) -> set[str]:
        return set(bound["mamba_state_idx"])

    def cleaned_up(self, bound: Bound, found: set[str], _result: Any) -> None:
        gone = found - set(bound["mamba_state_idx"])
        self._forgotten = sorted(map(self._session.aliases.request, gone))

    def before_collect(self, bound: Bound) -> int:
        return int(bound["copy_bufs"].offset)

    def copy_collected(self, bound: Bound, offset: int, _result: Any) -> None:
        """One request's copies of the V1 memcpy list, read back from their addresses."""
        source, target = int(bound["src_block_idx"]), int(bound["dest_block_idx"])
        bias = int(bound["accept_token_bias"])
        entry: dict[str, Any] = {"src_col": source, "dst_col": target, "bias": bias}
        entry["copies"] = int(bound["copy_bufs"].offset) > offset
        if entry["copies"]:
            entry["blocks"] = _blocks_of_addresses(bound, offset)
        self._copies[bound["req_state"].req_id] = entry

    def pre_copied(self, bound: Bound, found: dict[str, Any], _result: Any) -> None:
        batch, columns = bound["input_batch"], bound["mamba_state_idx"]
        step = self._worker.take_step(bound["scheduler_output"])
        name = self._session.aliases.request
        fused = _fused_copies(bound.get("align_ctx"), len(batch.req_ids))
        after = ints(batch.num_accepted_tokens_cpu, len(batch.req_ids)) if found["accepted"] else []
        rows = []
        for index, engine_id in enumerate(batch.req_ids):
            row: dict[str, Any] = {"id": name(engine_id)}
            if engine_id in columns:
                row["column"] = int(columns[engine_id])
            if found["accepted"] is not None:
                row |= {"accepted": found["accepted"][index], "accepted_out": after[index]}
            copy = self._copies.get(engine_id) if fused is None else fused[index]
            rows.append(row | (copy or {"copies": False}))
        event: dict[str, Any] = {
            "event": "pre_copy",
            "step": step,
            "columns_before": {name(i): int(column) for i, column in found["columns"].items()},
            "rows": rows,
        }
        gone = set(found["columns"]) - set(columns)
        event["forgotten"] = sorted(map(name, gone)) if self._forgotten is None else self._forgotten
        self._session.emit(event)
        self._worker.states.after("pre-copy", step, self._worker.runner)

    # ------------------------------------------------------------------- accept, post-copy

    def tokens_verified(self, bound: Bound) -> None:
        """Sampled ids [requests, 1 + drafts], -1 behind the last one that was kept."""
        runner, ids = bound["self"], bound["output_token_ids"]
        session, step = self._session, self._worker.step
        if getattr(runner, "speculative_config", None) is None or not is_tensor(ids):
            return
        session.accept_step = step
        names = self._worker.names(runner.input_batch.req_ids[: int(ids.shape[0])])
        kept = later(ids != -1)
        discarded = read(runner, "discard_request_mask.np")
        dropped = [] if discarded is None else discarded[: len(names)].tolist()

        def event() -> dict[str, Any]:
            counts = [sum(row) for row in kept()]
            line = {
                "event": "accept",
                "step": step,
                "counts": dict(zip(names, counts, strict=True)),
            }
            if dropped:
                line["sampled"] = {
                    name: 0 if drop else count
                    for name, count, drop in zip(names, counts, dropped, strict=True)
                }
            return line

        session.emit(event)

    def before_post_copy(self, bound: Bound) -> dict[str, Any]:
        context, count = bound["bufs"].postprocess_align, int(bound["num_reqs"])
        self._worker.states.after("forward", self._worker.step, self._worker.runner)
        staged = {
            name: ints(buffer.np, count)
            for name, attribute in (
                ("column", "mamba_state_idx_buf"),
                ("computed", "num_computed_tokens_buf"),
                ("scheduled", "num_scheduled_tokens_buf"),
                ("drafts", "num_draft_tokens_buf"),
            )
            if (buffer := getattr(context, attribute, None)) is not None
        }
        return {"staged": staged, "accepted": later(bound["num_accepted_tokens_gpu"][:count])}

    def post_copied(self, bound: Bound, found: dict[str, Any], _result: Any) -> None:
        count, step = int(bound["num_reqs"]), self._worker.step
        names = self._worker.names(bound["input_batch"].req_ids[:count])
        out: Later = later(bound["bufs"].postprocess_align.num_accepted_tokens_out[:count])

        def event() -> dict[str, Any]:
            columns = {"accepted": found["accepted"](), "accepted_out": out()} | found["staged"]
            rows = [
                {"id": name} | {key: int(values[i]) for key, values in columns.items()}
                for i, name in enumerate(names)
            ]
            return {"event": "post_copy", "step": step, "rows": rows}

        self._session.emit(event)
        self._worker.states.after("post-copy", step, self._worker.runner)

    def step_over(self, bound: Bound, _found: Any, _result: Any) -> None:
        """Where nothing is copied after the forward, its bytes are those of the step's end."""
        self._worker.states.after("forward", self._worker.step, bound["self"])


def _fused_copies(context: Any, count: int) -> list[dict[str, Any]] | None:
    """Columns and biases that were staged for the fused pre-copy, or None where it is not used."""
    if context is None:
        return None
    sources = ints(context.precopy_src_col_buf.np, count)
    biases = ints(context.precopy_token_bias_buf.np, count)
    targets = ints(context.mamba_state_idx_buf.np, count)
    return [
        {"copies": False}
        if source < 0
        else {"src_col": source, "dst_col": target, "bias": bias, "copies": source != target}
        for source, target, bias in zip(sources, targets, biases, strict=True)
    ]


def _blocks_of_addresses(bound: Bound, offset: int) -> list[dict[str, Any]]:
    """Which block each address of the list lies in, for the first layer of every group."""
    buffers, blocks = bound["copy_bufs"], []
    for group in bound["mamba_group_ids"]:
        layers = bound["kv_cache_config"].kv_cache_groups[group].layer_names
        states = list(bound["forward_context"][layers[0]].kv_cache)
        pairs = []
        for index, state in enumerate(states):
            stride = state.stride(0) * state.element_size()
            pairs.append(
                tuple(
                    (int(addresses.np[offset + index]) - state.data_ptr()) // stride
                    for addresses in (buffers.src_ptrs, buffers.dst_ptrs)
                )
            )
        offset += len(states) * len(layers)
        if len(set(pairs)) == 1:
            blocks.append({"group": group, "src": pairs[0][0], "dst": pairs[0][1]})
        else:
            blocks += [
                {"group": group, "src": source, "dst": target, "state": state}
                for state, (source, target) in zip(("conv", "temporal"), pairs, strict=False)
            ]
    return blocks
