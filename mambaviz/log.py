"""The readable step log: a `Step` as lines of text, for the command line and the Log tab."""

from __future__ import annotations

from collections.abc import Iterator

from mambaviz.trace import (
    BlockCopy,
    Decision,
    Metadata,
    Phase,
    RequestStep,
    RowTables,
    Step,
    Trace,
    Violation,
)

LABEL_WIDTH = 11  # the longest phase name and two spaces


def run_lines(trace: Trace) -> Iterator[str]:
    """The whole run: what was run, every step, and the verdict."""
    yield from head_lines(trace)
    for step in trace.steps:
        yield ""
        yield from step_lines(step)
    yield ""
    yield verdict(trace)


def head_lines(trace: Trace) -> Iterator[str]:
    scenario = trace.scenario
    engine, layer = scenario.engine, scenario.layer
    yield f"{scenario.name} (run {trace.scenario_hash[:7]}, {trace.backend})"
    if scenario.story:
        yield scenario.story
    yield (
        f"{engine.mode} mode, block size {engine.effective_block_size}, "
        f"{engine.num_spec} drafts a step, runner {engine.runner.upper()}, "
        f"layout {engine.layout}, {layer.num_layers} layers in {layer.cache_dtype}, "
        f"{engine.num_blocks - 1} blocks and the null block"
    )


def verdict(trace: Trace) -> str:
    steps = len(trace.steps)
    if not trace.violations:
        return f"{steps} steps, all invariants hold."
    broken = sorted({violation.invariant for violation in trace.violations})
    count = len(trace.violations)
    return f"{steps} steps, {', '.join(broken)} broken ({count} findings)."


def step_lines(step: Step) -> Iterator[str]:
    """One step, phase by phase; phases in which nothing happened are left out."""
    yield f"step {step.index}: {step_title(step)}"
    for action in step.actions:
        yield _line("event", action)
    for request in step.order:
        yield _line("schedule", f"{request} {_scheduled(step.requests[request])}")
    if step.preempted:
        yield _line("schedule", f"preempted {', '.join(step.preempted)}: not enough free blocks")
    if step.waiting:
        yield _line("schedule", f"waiting {', '.join(step.waiting)}")
    for phase in step.phases:
        yield from _phase_lines(step, phase)
    if step.finished_after:
        yield _line("commit", f"finished {', '.join(step.finished_after)}")
    for violation in step.violations:
        yield _line("BROKEN", violation_text(violation))


def step_title(step: Step) -> str:
    """What kind of step it is: ``decode A, prefill B``."""
    if step.stuck:
        return "nothing can run"
    if not step.order:
        return "nothing scheduled"
    return ", ".join(
        f"{step.requests[request].row_class} {request}" for request in step.batch_order
    )


def _line(label: str, text: str) -> str:
    return f"  {label:<{LABEL_WIDTH}}{text}"


def _scheduled(request: RequestStep) -> str:
    first, count = request.num_computed, request.num_scheduled
    last = first + count - 1
    tokens = f"token {first}" if count == 1 else f"tokens {first} to {last}"
    drafts = f", the last {request.drafts} of them drafts" if request.drafts else ""
    event = "" if request.event == "running" else f" ({request.event})"
    padded = ", padded like a decode" if request.padded_tail else ""
    return f"{tokens}{drafts}{padded}{event}"


def _phase_lines(step: Step, phase: Phase) -> Iterator[str]:
    if phase.name == "allocate" and phase.tables is not None:
        for request in step.order:
            yield from _row_lines(request, phase.tables.rows[request])
        yield _line("allocate", f"{step.free_count} blocks free or only cached")
    if phase.name == "metadata":
        for metadata in step.metadata:
            yield _line("metadata", _metadata(metadata))
    yield from _copy_lines(phase)
    if phase.name == "accept":
        for request in step.batch_order:
            yield _line("accept", f"{request} {_accepted(step.requests[request])}")
    if phase.name == "commit":
        counts = ", ".join(f"{name} {count}" for name, count in step.num_computed_after.items())
        if counts:
            yield _line("commit", f"computed now {counts}")


def _row_lines(request: str, row: RowTables) -> Iterator[str]:
    for group, (block_list, worker_row) in enumerate(
        zip(row.block_list, row.worker_row, strict=True)
    ):
        where = f" group {group}" if len(row.block_list) > 1 else ""
        worker = "" if block_list == worker_row else f", worker's row {ids(worker_row)}"
        yield _line("allocate", f"{request}{where} list {ids(block_list)}{worker}")


def ids(blocks: list[int]) -> str:
    """Block ids with ∅ for the null block."""
    return "[" + " ".join(str(block) if block else "∅" for block in blocks) + "]"


def _metadata(metadata: Metadata) -> str:
    counts = ("num_decodes", "num_prefills", "num_decode_tokens", "num_prefill_tokens")
    shown = [f"{item.name} {item.value}" for item in metadata.fields if item.name in counts]
    return f"group {metadata.group}: {', '.join(shown)}"


def _accepted(request: RequestStep) -> str:
    if not request.sampled:
        return "goes on with its prefill"
    sampled = f"sampled {' '.join(str(token) for token in request.sampled)}"
    if request.accepted_drafts is None or not request.drafts:
        return sampled
    return f"kept {request.accepted_drafts} of {request.drafts} drafts, {sampled}"


def _copy_lines(phase: Phase) -> Iterator[str]:
    for decision in phase.decisions:
        yield _line(phase.name, decision_text(decision))
    for copy in phase.copies:
        yield _line(phase.name, copy_text(copy))
    if phase.bytes_unexplained:
        yield _line(phase.name, f"{phase.bytes_unexplained} bytes unlike what the copies explain")


def decision_text(decision: Decision) -> str:
    """``A: running 7, new 8, aligned 8, bias 1, column 2 → 1: ...``"""
    values = ", ".join(
        f"{name} {value}"
        for name in ("running", "new", "aligned", "bias")
        if (value := getattr(decision, name)) is not None
    )
    columns = ""
    if decision.src_col is not None and decision.dst_col is not None:
        columns = f", column {decision.src_col} → {decision.dst_col}"
    shown = f"{values}{columns}".removeprefix(", ")
    return f"{decision.request}: {shown}{': ' if shown else ''}{decision.outcome}"


def copy_text(copy: BlockCopy) -> str:
    """``A MIGRATE layer 0 conv: block 3 → 2, bias 1, 64 bytes``, or why it was skipped."""
    name = f"{copy.request} {copy.kind.upper()} layer {copy.layer} {copy.state}"
    if copy.skipped is not None:
        return f"{name}: skipped, {copy.skipped}"
    itself = ", onto itself" if copy.onto_itself else ""
    return (
        f"{name}: block {copy.src_block} → {copy.dst_block}, bias {copy.bias}, "
        f"{copy.num_bytes} bytes{itself}"
    )


def violation_text(violation: Violation) -> str:
    numbers = ""
    if violation.expected is not None or violation.found is not None:
        numbers = f" (expected {violation.expected}, found {violation.found})"
    return f"{violation.invariant} in {violation.phase}: {violation.message}{numbers}"
