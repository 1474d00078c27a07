"""A recording as a scenario of ours: same prompts as far as they were equal, same acceptance.

It is only worth showing where our engine does what the recorded one did. `parting` says where that
ends: till then both give every request the same lists, id by id, and bytes are real again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from mambaviz.limits import MOST_REQUESTS, MOST_TOKENS
from mambaviz.recording.lines import Head
from mambaviz.recording.reader import RecordingError
from mambaviz.recording.steps import RecordedStep, request_names
from mambaviz.scenario import Scenario, ScenarioError, build
from mambaviz.trace import Step

_ALIAS_TOKENS = 1_000_000  # from here on tokens stand for an aliased block
_OWN_TOKENS = 500_000  # from here on for what no alias covers


def scenario_of(head: Head, steps: Sequence[RecordedStep]) -> Scenario:
    """The scenario that a recording from an engine's start is one of, as far as can be told.

    Raises `RecordingError` where it cannot be one of ours, with the reason.
    """
    if not steps or steps[0].index != 0 or any(r.kind != "new" for r in steps[0].requests):
        raise RecordingError(
            "it does not begin where its engine began, so no run can begin with it"
        )
    names = request_names(steps)
    if len(names) > MOST_REQUESTS:
        raise RecordingError(
            f"it has {len(names)} requests, and our engine takes {MOST_REQUESTS}; cut it to fewer "
            "steps"
        )
    links = {a: i for i, a in enumerate(dict.fromkeys(_aliases(steps)))}
    data = {
        "name": (head.title or f"{head.engine} {head.engine_version}")[:200],
        "story": "Made from a recording; its tokens are stand-ins that are equal where the "
        "recorded ones were.",
        "engine": _engine(head),
        "layer": _layer(head),
        "requests": [
            _request(head, number, name, steps, links) for number, name in enumerate(names)
        ],
        "events": list(_events(steps)),
    }
    try:
        return build(data)
    except ScenarioError as error:
        raise RecordingError(f"our engine takes no such run: {error}") from None


@dataclass(frozen=True)
class Parting:
    """Where two engines do not do the same any more, and with which numbers."""

    step: int
    what: str


def parting(ours: Iterable[Step], recorded: Sequence[RecordedStep]) -> Parting | None:
    """The first difference in what the scheduled requests are given; None: there is none."""
    steps = iter(ours)
    for theirs in recorded:
        step = next(steps, None)
        what = "our run is over before it" if step is None else _difference(step, theirs)
        if what:
            return Parting(theirs.index, what)
    return None


def _difference(ours: Step, theirs: RecordedStep) -> str:
    """The first request that differs, and in what: both values. Empty: none does."""
    order = [request.id for request in theirs.requests]
    if ours.order != order:
        return _other_order(ours.order, order)
    tables = next((p.tables for p in ours.phases if p.name == "allocate"), None)
    for request in theirs.requests:
        mine = ours.requests[request.id]
        for name, recorded, own in (
            ("tokens computed before", request.computed, mine.num_computed),
            ("tokens scheduled", request.scheduled, mine.num_scheduled),
            ("drafts", request.drafts, mine.drafts),
        ):
            if recorded != own:
                return f"{request.id} has {recorded} {name} in the recording and {own} in our run"
        lists = theirs.blocks.lists.get(request.id) if theirs.blocks is not None else None
        if tables is not None and lists is not None:
            found = tables.rows[request.id].block_list
            what = _other_list([list(ids or ()) for ids in lists], found)
            if what:
                return f"{request.id}’s list{what}"
    return ""


def _other_order(ours: Sequence[str], theirs: Sequence[str]) -> str:
    pairs = enumerate(zip_longest(theirs, ours, fillvalue="nobody"))
    place, (recorded, own) = next((at, pair) for at, pair in pairs if pair[0] != pair[1])
    where = f"after {ours[place - 1]}" if place else "first"
    return f"{recorded} is scheduled {where} in the recording and {own} in our run"


def _other_list(theirs: Sequence[Sequence[int]], ours: Sequence[Sequence[int]]) -> str:
    """The first column that differs, with the block in it on both sides."""
    for group, (recorded, own) in enumerate(zip_longest(theirs, ours, fillvalue=())):
        where = f" in group {group}" if max(len(theirs), len(ours)) > 1 else ""
        for column, blocks in enumerate(zip_longest(recorded, own)):
            if blocks[0] != blocks[1]:
                first, second = map(_block, blocks)
                place = f"{where} has in column {column}"
                return f"{place} {first} in the recording and {second} in our run"
    return ""


def _block(block: int | None) -> str:
    return "nothing" if block is None else f"block {block}" if block else "the null block"


def _aliases(steps: Sequence[RecordedStep]) -> Iterator[int]:
    for step in steps:
        for came in step.came:
            yield from came.prefix or ()


def _engine(head: Head) -> dict[str, Any]:
    settings, groups = head.settings, head.groups or []
    mamba = [group for group in groups if group.kind == "mamba"]
    known = {
        name: getattr(settings, name)
        for name in (
            "mode",
            "runner",
            "layout",
            "num_spec",
            "num_blocks",
            "max_num_batched_tokens",
            "max_num_seqs",
            "prefill_chunk_limit",
            "max_model_len",
            "retention",
            "admission_gate",
            "stop_before_last_token",
            "drop_last_matched_block",
            "register_draft_filled_blocks",
            "replayssm_buffer_len",
        )
    }
    engine = {name: value for name, value in known.items() if value is not None}
    if settings.stop_before_last_token is None:
        engine["stop_before_last_token"] = not head.engine_version.startswith(
            ("0.28", "0.29", "0.30")
        )
    size = settings.block_size if settings.mode == "none" else None
    return engine | {
        "block_size": size or (mamba[0].block_size if mamba else settings.block_size),
        "num_mamba_groups": len(mamba) or 1,
        "attention_group": len(groups) > len(mamba),
        "allow_unsound": True,  # it is replayed as it was, sound or not
    }


def _layer(head: Head) -> dict[str, Any]:
    """Small layers of ours, one a Mamba group; the recorded ones may have any size."""
    mamba = [group for group in head.groups or () if group.kind == "mamba"]
    layer: dict[str, Any] = {"num_layers": max(2, len(mamba))}
    if head.settings.mode == "all" and head.settings.chunk_size:
        layer["chunk_size"] = head.settings.chunk_size
    return layer


def _request(
    head: Head,
    number: int,
    name: str,
    steps: Sequence[RecordedStep],
    links: Mapping[int, int],
) -> dict[str, Any]:
    came = next((c for s in steps for c in s.came if c.id == name), None)
    ran = [(s, r) for s in steps for r in s.requests if r.id == name]
    prompt = came.prompt if came is not None else ran[0][1].prompt if ran else None
    if not prompt:
        raise RecordingError(f"the length of {name}’s prompt was not recorded")
    if prompt > MOST_TOKENS:
        raise RecordingError(f"{name} has a prompt of {prompt} tokens, more than {MOST_TOKENS}")
    first = came.step if came is not None else ran[0][0].index
    plan: dict[str, Any] = {
        "id": name,
        "prompt": _prompt(
            head, number, prompt, [links[a] for a in (came.prefix or ())] if came else []
        ),
        "arrive": first,
        "max_tokens": _outputs(came.max_tokens if came is not None else None, prompt, name, ran),
    }
    decodes = [(s, r) for s, r in ran if r.computed >= prompt and r.kind == "running"]
    if head.settings.num_spec:
        plan["drafts"] = [r.drafts for _, r in decodes] or 0
        verified = [
            (s.accept.counts or {}).get(name) if s.accept else None for s, r in decodes if r.drafts
        ]
        if None in verified:
            raise RecordingError(f"what was accepted of {name} was not recorded")
        plan["accept"] = [count - 1 for count in verified if count is not None] or "all"
    return plan


def _prompt(head: Head, number: int, length: int, prefix: Sequence[int]) -> list[int]:
    """Tokens that are equal where the aliases are; what no alias covers is the request's own."""
    size = head.settings.hash_block_size or head.settings.block_size or length
    tokens: list[int] = []
    for link in prefix:
        if len(tokens) >= length:
            break
        start = _ALIAS_TOKENS + link * size
        tokens += range(start, start + min(size, length))
    own = _OWN_TOKENS + 1000 * number
    tokens = tokens[:length]
    return tokens + [own + at for at in range(len(tokens), length)]


def _outputs(
    most: int | None, prompt: int, name: str, ran: Sequence[tuple[RecordedStep, Any]]
) -> int:
    """Tokens that it produced: its limit, or as many as were seen."""
    if most:
        return most
    known = [
        (s.commit.known or {}).get(name, r.known or 0) if s.commit else r.known or 0 for s, r in ran
    ]
    return max(1, max(known, default=prompt + 1) - prompt)


def _events(steps: Sequence[RecordedStep]) -> Iterable[dict[str, Any]]:
    for step in steps:
        for action in step.actions:
            event: dict[str, Any] = {"step": step.index, "kind": action.kind}
            yield event if action.request is None else {**event, "request": action.request}
