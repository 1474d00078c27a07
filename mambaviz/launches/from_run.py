"""The inputs of a copy launch as a step of a run had them.

The rows, counts and block ids are those of the step; the blocks hold the tokens that they name,
in caches of the same sizes. Costs no torch.
"""

from __future__ import annotations

from typing import Any

from mambaviz.launches.inputs import (
    KERNEL_LABELS,
    MOST_COLUMNS,
    KernelName,
    LaunchError,
    LaunchInputs,
    build,
)
from mambaviz.scenario import name_with
from mambaviz.trace import Decision, PhaseName, Trace

PHASE_OF: dict[KernelName, PhaseName] = {
    "postprocess": "post-copy",
    "preprocess": "pre-copy",
    "precopy": "pre-copy",
    "memcpy": "pre-copy",
}


def from_trace_step(trace: Trace, step: int, kernel: KernelName, group: int = 0) -> LaunchInputs:
    """What ``kernel`` decides on in one step of a run, for one Mamba group.

    Raises `LaunchError` where the step has no such decisions, or a batch too large to show.
    """
    scenario, found = trace.scenario, trace.steps[step]
    phase = PHASE_OF[kernel]
    decisions = found.phase(phase).decisions
    if not decisions:
        raise LaunchError(
            f"step {step} of this run decides nothing in its {phase} phase, so there is nothing "
            f"to take for “{KERNEL_LABELS[kernel]}”"
        )
    engine, layer = scenario.engine, scenario.layer
    rows = [_row(trace, step, decision, kernel, group) for decision in decisions]
    longest = max(len(row["blocks"]) for row in rows)
    if longest > MOST_COLUMNS:
        raise LaunchError(
            f"step {step} has a block-table row of {longest} ids, and this page shows up to "
            f"{MOST_COLUMNS}"
        )
    v2 = engine.runner == "v2"
    return build(
        {
            "name": name_with(scenario.name, f"step {step}"),
            "story": f"What stood there in the {phase} phase of step {step} on the Watch page.",
            "kernel": kernel,
            "advanced": v2 and kernel == "postprocess",
            "mapped": v2 and kernel != "memcpy",
            "block_size": engine.block_size,
            "layout": "SD" if kernel == "memcpy" else engine.layout,
            "layers": min(layer.num_layers, 4),
            "num_spec": min(engine.num_spec, 6),
            "conv_kernel": layer.conv_kernel,
            "channels": min(layer.num_heads * layer.head_dim, 8),
            "d_state": min(layer.d_state, 8),
            "dtype": layer.cache_dtype,
            "num_blocks": min(engine.num_blocks, 256),
            "columns": min(MOST_COLUMNS, longest + 1),
            "rows": rows,
        }
    )


def _row(
    trace: Trace, step: int, decision: Decision, kernel: KernelName, group: int
) -> dict[str, Any]:
    tables = trace.tables_after(step, "metadata").rows[decision.request]
    v2 = trace.scenario.engine.runner == "v2"
    row: dict[str, Any] = {
        "request": decision.request,
        "slot": decision.slot if decision.slot is not None else decision.row,
        "blocks": tables.worker_row[group],
    }
    if not v2:
        del row["slot"]
    now = trace.steps[step].requests[decision.request]
    source = -1 if decision.src_col is None else decision.src_col
    match kernel:
        case "postprocess":
            computed = decision.new if v2 else decision.computed
            return row | {
                "computed": computed,
                "scheduled": now.num_scheduled,
                "drafts": now.drafts,
                "accepted": decision.accepted,
                "state_idx": source,
            }
        case "preprocess":
            return row | {
                "computed": decision.computed,
                "scheduled": now.num_scheduled,
                "accepted": decision.accepted or 1,
                "state_idx": source if decision.copies else _stays(decision, source),
            }
        case _:
            return row | {
                "computed": decision.computed,
                "src_col": source,
                "bias": decision.bias or 0,
                "state_idx": _stays(decision, source),
            }


def _stays(decision: Decision, source: int) -> int:
    return source if decision.dst_col is None else decision.dst_col
