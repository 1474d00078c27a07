"""What is read at the worker (V1 runner): rows, copies, accepted counts, metadata, bytes."""

from __future__ import annotations

import dataclasses
from typing import Any

from mambaviz.recorder.cuts import Cuts
from mambaviz.recorder.head import group_kind, groups_of, process_of, read, settings_of
from mambaviz.recorder.seams import Bound, Seam, SeamError, Wrapped, wrap
from mambaviz.recorder.session import MARK, Session, head_lines
from mambaviz.recorder.state_bytes import StateBytes
from mambaviz.recorder.values import Later, ints, is_tensor, later, plain_value

RUNNER = "vllm.v1.worker.gpu_model_runner"
RUNNER_V2 = "vllm.v1.worker.gpu.model_runner"
MAMBA = "vllm.v1.worker.mamba_utils"

# What the builder reads (section 4.1); the rest of the engine's object is not ours to show.
INPUTS = (
    "num_reqs",
    "num_actual_tokens",
    "max_query_len",
    "query_start_loc",
    "seq_lens",
    "is_prefilling",
    "seq_lens_cpu_upper_bound",
    "replayssm_decode_base_cpu",
)
KEYWORDS = {
    "num_accepted_tokens": "num_accepted_tokens",
    "prev_last_scheduled_idx": "prev_last_scheduled_idx",
    "num_decode_draft_tokens_cpu": "num_decode_draft_tokens",
}


class WorkerSeams:
    """Turns calls of the worker into lines."""

    def __init__(self, session: Session, version: str) -> None:
        self._session = session
        self._version = version
        self._cuts = Cuts()
        self._restarts = 0
        self._step = -1
        self._runner: Any = None
        self._group_of: dict[int, int] = {}  # id of a builder -> its cache group
        self._copies: dict[str, dict[str, Any]] = {}
        self._forgotten: list[str] | None = None
        self._states = StateBytes(session)
        self.wrapped: list[Wrapped] = []

    def seams(self) -> list[Seam]:
        return [
            Seam(
                "metadata",
                RUNNER,
                "GPUModelRunner.initialize_metadata_builders",
                (),
                after=self.builders_made,
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
            Seam(
                "rows (V2)",
                RUNNER_V2,
                "GPUModelRunner.initialize_kv_cache",
                (),
                after=self.second_runner,
            ),
        ]

    # ---------------------------------------------------------------------------- start

    def second_runner(self, _bound: Bound, _found: Any, _result: Any) -> None:
        """The V2 runner keeps its rows on the device: only the scheduler's side is recorded."""
        self._session.runner = "v2"
        for entry in self._session.hooks:
            if entry["where"].startswith((RUNNER + ".", MAMBA + ".", RUNNER_V2 + ".")):
                entry["hooked"] = False
                entry["why"] = "the V2 runner's rows and copies stay on the device"

    def builders_made(self, bound: Bound, _found: Any, _result: Any) -> None:
        """The runner has its metadata builders: hook the classes that it really uses."""
        runner = bound["self"]
        self._session.runner = "v1"
        self._runner = runner
        self._group_of = {}
        seen: set[type] = set()
        groups = runner.kv_cache_config.kv_cache_groups
        for group_index, attention_groups in enumerate(runner.attn_groups):
            if group_kind(groups[group_index].kv_cache_spec) != "mamba":
                continue
            for attention_group in attention_groups:
                for builder in attention_group.metadata_builders:
                    self._group_of[id(builder)] = group_index
                    if type(builder) not in seen:
                        seen.add(type(builder))
                        self._hook_builder(type(builder))

    def _hook_builder(self, builder: type) -> None:
        for name, needs in (
            ("build", ("common_attn_metadata",)),
            ("update_block_table", ("metadata", "blk_table")),
        ):
            owner = next((base for base in builder.__mro__ if name in vars(base)), builder)
            target = f"{owner.__name__}.{name}"
            seam = Seam("metadata", owner.__module__, target, needs, after=self.metadata_built)
            if any(entry["where"] == seam.where for entry in self._session.hooks):
                continue
            entry: dict[str, Any] = {"seam": "metadata", "hooked": True, "where": seam.where}
            try:
                self.wrapped.append(wrap(owner, name, seam, self._session))
            except SeamError as error:
                entry |= {"hooked": False, "why": str(error)}
            self._session.hooks.append(entry)

    def _begin(self, runner: Any) -> None:
        """A worker in a process of its own has no scheduler: its file begins here."""
        session, config = self._session, runner.kv_cache_config
        settings = settings_of(runner.vllm_config, config, None, session.runner)
        head = head_lines(session, self._version, settings, groups_of(config))
        rank = read(runner.vllm_config, "parallel_config.rank")
        process, suffix = process_of(
            runner.vllm_config, "worker", rank if isinstance(rank, int) else -1
        )
        session.begin(head | {"process": process}, suffix)

    def _take_step(self, scheduler_output: Any) -> int:
        """The step that an output belongs to, by the mark that the scheduler's seam left."""
        step, names = getattr(scheduler_output, MARK, (None, {}))
        if step is None:
            step = self._step + 1
        elif step > self._session.step:  # another process counts; here only its marks come
            self._session.step = step - 1
            self._session.next_step()
            self._session.aliases.adopt(names)
        self._step = step
        return step

    def _names(self, input_batch: Any, count: int | None = None) -> list[str]:
        return [self._session.aliases.request(i) for i in list(input_batch.req_ids)[:count]]

    # ----------------------------------------------------------------------------- rows

    def batch_stands(self, bound: Bound, _found: Any, _result: Any) -> None:
        """The rows are in their final order, and nothing was copied yet."""
        runner, session = bound["self"], self._session
        if self._runner is not runner:  # it was there before the recorder was
            self.builders_made(bound, None, None)
        if not session.begun:
            self._begin(runner)
        step = self._take_step(bound["scheduler_output"])
        if self._restarts != session.restarts:
            self._restarts = session.restarts
            self._cuts.clear()
        batch = runner.input_batch
        order = self._names(batch)
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
        has_counts = counts is not None and self._counts_on_cpu(self._runner)
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
        step = self._take_step(bound["scheduler_output"])
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
        self._states.after("pre-copy", step, self._runner)

    # -------------------------------------------------------------------------- metadata

    def metadata_built(self, bound: Bound, _found: Any, result: Any) -> None:
        group = self._group_of.get(id(bound["self"]))
        if group is None or self._step < 0 or not dataclasses.is_dataclass(result):
            return  # a warm-up, or a draft model's own
        inputs = _inputs(bound)
        fields = {
            field.name: plain_value(getattr(result, field.name))
            for field in dataclasses.fields(result)
        }
        head = {
            "event": "metadata",
            "step": self._step,
            "group": group,
            "builder": type(bound["self"]).__name__,
        }
        self._session.emit(
            lambda: (
                head
                | {
                    "inputs": {name: value() for name, value in inputs.items()},
                    "fields": {n: value() for n, value in fields.items() if value is not None},
                }
            )
        )

    # ------------------------------------------------------------------- accept, post-copy

    def tokens_verified(self, bound: Bound) -> None:
        """Sampled ids [requests, 1 + drafts], -1 behind the last one that was kept."""
        runner, ids = bound["self"], bound["output_token_ids"]
        session, step = self._session, self._step
        if getattr(runner, "speculative_config", None) is None or not is_tensor(ids):
            return
        session.accept_step = step
        names = self._names(runner.input_batch, int(ids.shape[0]))
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
        self._states.after("forward", self._step, self._runner)
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
        count, step = int(bound["num_reqs"]), self._step
        names = self._names(bound["input_batch"], count)
        out: Later = later(bound["bufs"].postprocess_align.num_accepted_tokens_out[:count])

        def event() -> dict[str, Any]:
            columns = {"accepted": found["accepted"](), "accepted_out": out()} | found["staged"]
            rows = [
                {"id": name} | {key: int(values[i]) for key, values in columns.items()}
                for i, name in enumerate(names)
            ]
            return {"event": "post_copy", "step": step, "rows": rows}

        self._session.emit(event)
        self._states.after("post-copy", step, self._runner)

    def step_over(self, bound: Bound, _found: Any, _result: Any) -> None:
        """Where nothing is copied after the forward, its bytes are those of the step's end."""
        self._states.after("forward", self._step, bound["self"])


def _inputs(bound: Bound) -> dict[str, Later]:
    common = bound.get("common_attn_metadata")
    values = {name: plain_value(getattr(common, name)) for name in INPUTS if hasattr(common, name)}
    keywords = {**bound, **bound.get("kwargs", {})}
    for keyword, name in KEYWORDS.items():
        values[name] = plain_value(keywords.get(keyword))  # null: not passed in this step
    return {name: value for name, value in values.items() if value is not None}


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
