"""What a builder made of the batch, beside what section 4 makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mambaviz.metadata_check import BatchRow, BuilderFacts, batch_problems
from mambaviz.recording.judge.case import Case
from mambaviz.recording.lines import Built, Scheduled
from mambaviz.recording.rules import Verdict
from mambaviz.recording.values import built_fields


def described(case: Case) -> Iterator[Verdict]:
    """The metadata of every group whose batch is known in full."""
    facts, rows = case.facts, case.now.rows
    if rows is None or facts.mode is None or facts.block_size is None or facts.num_spec is None:
        return
    builder = BuilderFacts(
        facts.mode, facts.block_size, facts.num_spec, facts.chunk_size, facts.ring
    )
    requests = {request.id: request for request in case.now.requests}
    for built in case.now.metadata:
        batch = _batch(case, rows.order, requests, built.group)
        if batch is not None:
            yield from _problems(case, builder, batch, built)


def _problems(
    case: Case, builder: BuilderFacts, batch: Sequence[BatchRow], built: Built
) -> Iterator[Verdict]:
    given = (built.inputs or {}).get("num_accepted_tokens", True) is not None
    fields = built_fields(built)
    for problem in batch_problems(
        builder, batch, case.now.index, built.group, fields, counts_given=given
    ):
        yield case.verdict(
            "metadata",
            "metadata",
            problem.message,
            request=problem.request,
            group=built.group,
            expected=problem.expected,
            found=problem.found,
        )


def _batch(
    case: Case, order: Sequence[str], requests: Mapping[str, Scheduled], group: int
) -> list[BatchRow] | None:
    """The batch as the builder must have seen it; None where part of it is unknown."""
    batch = []
    for name in order:
        request, memory = requests.get(name), case.memory.get(name)
        ids = case.now.row(name, group)
        if request is None or memory is None or memory.base is None or ids is None:
            return None
        if memory.accepted is None and case.facts.num_spec:
            return None
        batch.append(
            BatchRow(
                name,
                request.computed,
                request.scheduled,
                not memory.is_decode(request),
                ids,
                memory.accepted or 1,
                memory.base,
            )
        )
    return batch
