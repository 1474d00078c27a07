"""A run of our own as a recording: so every scenario is one too, and the format is tried on all.

Only what the format holds is written (docs/recording.md): lists and registrations as changes,
rows as their new columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from mambaviz.recording.lines import FORMAT, VERSION
from mambaviz.scenario import Event, Scenario
from mambaviz.trace import (
    Decision,
    Metadata,
    PhaseName,
    Step,
    Tables,
    TensorRecord,
    Trace,
)

Json = dict[str, Any]
_STATE_PHASES: tuple[PhaseName, ...] = ("pre-copy", "forward", "post-copy")


def recording_of(trace: Trace, *, states: bool = False) -> Iterator[str]:
    """The lines of a recording of this run, each with its end; with ``states`` bytes too."""
    count = 1
    yield _text(head_of(trace.scenario, states=states))
    writer = _Writer(trace, states=states)
    for step in trace.steps:
        for line in writer.step(step):
            count += 1
            yield _text(line)
    yield _text(
        {"event": "end", "steps": len(trace.steps), "lines": count + 1, "why": "exit"},
    )


def _text(line: Json) -> str:
    return json.dumps(line, separators=(",", ":")) + "\n"


def head_of(scenario: Scenario, *, states: bool) -> Json:
    engine, layer = scenario.engine, scenario.layer
    settings = {
        "mode": engine.mode,
        "runner": engine.runner,
        "layout": engine.layout,
        "block_size": engine.block_size,
        "hash_block_size": engine.effective_block_size,
        "num_spec": engine.num_spec,
        "num_blocks": engine.num_blocks,
        "max_num_seqs": engine.max_num_seqs,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "max_model_len": engine.max_model_len,
        "prefill_chunk_limit": engine.prefill_chunk_limit,
        "retention": engine.retention,
        "admission_gate": engine.admission_gate,
        "stop_before_last_token": engine.stop_before_last_token,
        "drop_last_matched_block": engine.drop_last_matched_block,
        "register_draft_filled_blocks": engine.register_draft_filled_blocks,
        "full_cuda_graphs": engine.full_cuda_graphs,
        "async_scheduling": False,
        "prefix_caching": engine.mode != "none",
        "replayssm_buffer_len": engine.replayssm_buffer_len,
        "chunk_size": layer.chunk_size,
    }
    return {
        "event": "head",
        "format": FORMAT,
        "version": VERSION,
        "engine": "mambaviz",
        "engine_version": "1",
        "title": scenario.name,
        "story": scenario.story,
        "settings": settings,
        "groups": _groups(scenario),
        "aliases": {"requests": "kept", "tokens": "left out"},
        "states": states,
    }


def _groups(scenario: Scenario) -> list[Json]:
    engine, layer = scenario.engine, scenario.layer
    conv = [layer.conv_kernel - 1 + engine.num_spec, layer.num_heads * layer.head_dim]
    shapes = {
        "conv": conv if engine.layout == "SD" else conv[::-1],
        "temporal": [layer.num_heads, layer.head_dim, layer.d_state],
    }
    kinds = ("conv", "temporal") if layer.states == "both" else (layer.states,)
    states = [{"state": k, "shape": shapes[k], "dtype": layer.cache_dtype} for k in kinds]
    counts = [0] * engine.num_mamba_groups
    for number in range(layer.num_layers):
        counts[number % engine.num_mamba_groups] += 1
    size = engine.effective_block_size
    groups: list[Json] = [
        {"kind": "mamba", "block_size": size, "layers": count, "states": states} for count in counts
    ]
    if engine.attention_group:
        groups.append({"kind": "attention", "block_size": size})
    return groups


class _Writer:
    """What was written last, so that a line holds only what is new."""

    def __init__(self, trace: Trace, *, states: bool) -> None:
        self.trace = trace
        self.states = states
        self.lists: dict[str, list[list[int]]] = {}
        self.rows: dict[str, list[list[int]]] = {}
        self.registered: dict[int, str] | None = None
        self.links: dict[object, int] = {}  # a prefix of a prompt -> its alias

    def step(self, step: Step) -> Iterator[Json]:
        for line in self._lines(step):
            yield {"event": line.pop("event"), "step": step.index, **line}

    def _lines(self, step: Step) -> Iterator[Json]:
        yield from self._outside(step)
        yield _schedule(step)
        tables = self.trace.tables_after(step.index, "allocate")
        yield self._blocks(step, tables)
        if step.order:
            yield self._worker(step, tables)
            yield from self._copies(step, "pre-copy")
            yield from (_metadata(built) for built in step.metadata)
            yield from self._bytes(step, "forward")
            yield _accept(step, self.trace.tables_after(step.index, "accept"))
            yield from self._copies(step, "post-copy")
        yield {
            "event": "commit",
            "computed": step.num_computed_after,
            "finished": step.finished_after,
        }

    # ------------------------------------------------------------------ from outside

    def _outside(self, step: Step) -> Iterator[Json]:
        scenario = self.trace.scenario
        for index, plan in enumerate(scenario.requests):
            if plan.id in step.arrivals:
                yield {
                    "event": "request",
                    "id": plan.id,
                    "prompt": plan.num_prompt_tokens,
                    "max_tokens": plan.max_tokens,
                    "prefix": self._prefix(scenario.prompt_of(index), plan.salt),
                    "salted": plan.salt is not None,
                }
        for event in scenario.events:
            if event.step == step.index:
                yield _action(event)

    def _prefix(self, prompt: Sequence[int], salt: str | None) -> list[int]:
        size = self.trace.scenario.engine.effective_block_size
        ends = range(size, len(prompt) + 1, size)
        keys = [(salt, tuple(prompt[:end])) for end in ends]
        return [self.links.setdefault(key, len(self.links)) for key in keys]

    # ------------------------------------------------------------------ ids

    def _blocks(self, step: Step, tables: Tables) -> Json:
        whole = self.registered is None
        lists = {
            name: cuts
            for name, row in tables.rows.items()
            if (cuts := _cuts(row.block_list, self.lists.get(name)))
        }
        gone = [name for name in self.lists if name not in tables.rows]
        before = self.registered or {}
        registered: dict[str, str | None] = {
            str(block): prefix
            for block, prefix in tables.registered.items()
            if before.get(block) != prefix
        }
        registered |= {str(block): None for block in before if block not in tables.registered}
        self.lists = {name: row.block_list for name, row in tables.rows.items()}
        self.registered = dict(tables.registered)
        remembered = {
            name: request.last_state_block_idx
            for name, request in step.requests.items()
            if request.last_state_block_idx is not None
        }
        return {
            "event": "blocks",
            "lists": lists,
            "gone": gone,
            "registered": registered,
            "free_queue": step.free_queue_after_alloc,
            "remembered": remembered,
            "whole": whole,
        }

    def _worker(self, step: Step, tables: Tables) -> Json:
        for name, request in step.requests.items():
            if request.event != "running":
                self.rows.pop(name, None)
        rows = {
            name: cuts
            for name in step.batch_order
            if (cuts := _cuts(tables.rows[name].worker_row, self.rows.get(name)))
        }
        for name in (*step.finished_reported, *step.preempted):
            if name not in step.requests:
                self.rows.pop(name, None)
        self.rows |= {name: tables.rows[name].worker_row for name in step.batch_order}
        line: Json = {
            "event": "rows",
            "order": step.batch_order,
            "rows": rows,
            "accepted": {name: tables.rows[name].num_accepted for name in step.batch_order},
        }
        slots = {name: tables.rows[name].slot for name in step.batch_order}
        if None not in slots.values():
            line["slots"] = slots
        return line

    # ------------------------------------------------------------------ copies and bytes

    def _copies(self, step: Step, phase: PhaseName) -> Iterator[Json]:
        found = step.phase(phase)
        if found.decisions:
            event = "pre_copy" if phase == "pre-copy" else "post_copy"
            rows = [
                _decided(decision, phase, _copied(step, phase, decision.request))
                for decision in found.decisions
            ]
            yield {"event": event, "rows": rows}
        yield from self._bytes(step, phase)

    def _bytes(self, step: Step, phase: PhaseName) -> Iterator[Json]:
        if not self.states:
            return
        for change in step.phase(phase).changes:
            spec = self.trace.spec_of[change.layer, change.state]
            yield {
                "event": "state",
                "after": phase,
                "group": spec.group,
                "layer": change.layer,
                "state": change.state,
                "block": change.block,
                "data": change.data,
            }


def _action(event: Event) -> Json:
    line: Json = {"event": "action", "kind": event.kind}
    return line if event.request is None else {**line, "request": event.request}


def _schedule(step: Step) -> Json:
    requests = []
    for name in step.order:
        request = step.requests[name]
        entry: Json = {
            "id": name,
            "kind": request.event,
            "computed": request.num_computed,
            "scheduled": request.num_scheduled,
            "drafts": request.drafts,
            "known": request.num_tokens,
            "prompt": request.num_prompt_tokens,
        }
        requests.append({**entry, "padded_tail": True} if request.padded_tail else entry)
    return {
        "event": "schedule",
        "requests": requests,
        "finished": step.finished_reported,
        "preempted": step.preempted,
        "waiting": step.waiting,
        "free_count": step.free_count,
    }


def _cuts(now: list[list[int]], before: list[list[int]] | None) -> list[Json]:
    """What is new in a request's lists; nothing when nothing is."""
    if now == before:
        return []
    return [_cut(ids, before[group] if before is not None else []) for group, ids in enumerate(now)]


def _cut(ids: list[int], before: list[int]) -> Json:
    start = 0
    while start < min(len(ids), len(before)) and ids[start] == before[start]:
        start += 1
    return {"start": start, "ids": ids[start:]} if start else {"ids": ids}


def _metadata(built: Metadata) -> Json:
    fields = {field.name: _value(field.value) for field in built.fields}
    return {"event": "metadata", "group": built.group, "fields": fields}


def _value(value: Any) -> Any:
    if not isinstance(value, TensorRecord):
        return value
    record: Json = {"dtype": value.dtype, "shape": value.shape}
    if not value.dtype.startswith(("float", "bfloat")):
        record["values"] = value.values
    if value.fill is not None:
        record["fill"] = value.fill
    return record


def _accept(step: Step, tables: Tables) -> Json:
    return {
        "event": "accept",
        "counts": {name: tables.rows[name].num_accepted for name in step.batch_order},
        "sampled": {name: len(step.requests[name].sampled) for name in step.batch_order},
    }


def _decided(decision: Decision, phase: PhaseName, blocks: list[Json]) -> Json:
    """The values that a decision has; in a pre-copy ``column`` is the one stored, else the source.

    The V1 runner's post-copy is staged with three counts, V2's with the advanced one.
    """
    pre = phase == "pre-copy"
    row: Json = {
        "id": decision.request,
        "column": decision.dst_col if pre else decision.src_col,
        "accepted": decision.accepted,
        "accepted_out": decision.accepted_out,
        "copies": decision.copies,
    }
    if decision.copies:
        row |= {
            "src_col": decision.src_col,
            "dst_col": decision.dst_col,
            "bias": decision.bias,
            "blocks": blocks,
        }
    if not pre and decision.scheduled is not None:
        row |= {
            "computed": decision.computed,
            "scheduled": decision.scheduled,
            "drafts": decision.drafts,
        }
    elif not pre:
        row["new_computed"] = decision.new
    return {key: value for key, value in row.items() if value is not None}


def _copied(step: Step, phase: PhaseName, request: str) -> list[Json]:
    """Blocks of a request's copies, each pair once a group and state; ids outside a row are null.

    The copies name layers; layers of one group share its table, so the first one speaks for all.
    """
    found: dict[tuple[int, str], Json] = {}
    for copy in step.phase(phase).copies:
        if copy.request == request:
            line = {
                "group": copy.group,
                "state": copy.state,
                "src": copy.src_block,
                "dst": copy.dst_block,
            }
            found.setdefault((copy.group, copy.state), line)
    return list(found.values())
