"""The scenario editor's contents as plain data: what each knob is, and text for lists and back.

No Streamlit here. The widgets of `editor.py` edit a `Draft`; `read_draft` makes a scenario of
it or says in one sentence which field is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from pydantic.fields import FieldInfo

from mambaviz.limits import MOST_TOKENS, USUAL
from mambaviz.scenario import (
    AcceptanceRate,
    AcceptPlan,
    DraftPlan,
    EngineSettings,
    Event,
    LayerSettings,
    RequestPlan,
    Scenario,
    ScenarioError,
    build,
)
from mambaviz.workload import within

Value = str | int | bool | None


class FieldError(ScenarioError):
    """A scenario that cannot run, because of ``field`` (as its message names it)."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


# --------------------------------------------------------------------------------------
# Knobs
# --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Knob:
    """One field of the engine or layer settings: its name on screen and one line of help."""

    section: Literal["engine", "layer"]
    name: str
    label: str
    help: str

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def info(self) -> FieldInfo:
        model = EngineSettings if self.section == "engine" else LayerSettings
        return model.model_fields[self.name]

    @property
    def kind(self) -> Literal["choice", "switch", "number", "optional number", "text"]:
        annotation = self.info.annotation
        if annotation is bool:
            return "switch"
        if annotation is int:
            return "number"
        if all(isinstance(choice, str) for choice in self.choices) and self.choices:
            return "choice"
        return "optional number" if type(None) in get_args(annotation) else "text"

    @property
    def choices(self) -> tuple[str, ...]:
        annotation = self.info.annotation
        if any(isinstance(choice, str) for choice in get_args(annotation)):
            return get_args(annotation)
        return ()

    @property
    def allowed(self) -> str:
        """The allowed range in words."""
        if self.kind == "choice":
            return " or ".join(self.choices)
        if self.kind == "switch":
            return "on or off"
        if self.kind == "text":
            return "dense, boundary, or a number from 1"
        low, high = bounds(self.info)
        text = f"{low} to {high}" if high is not None else f"{low} or more"
        return f"{text}, or empty" if self.kind == "optional number" else text


def bounds(info: FieldInfo) -> tuple[int, int | None]:
    """Smallest and largest allowed integer of a field (the largest may be open)."""
    metadata = list(info.metadata)
    for member in get_args(info.annotation):  # PositiveInt | None keeps its bounds in the member
        metadata += getattr(member, "__metadata__", ())[:1]
    flat = [item for entry in metadata for item in getattr(entry, "metadata", [entry])]
    low = next((item.ge for item in flat if hasattr(item, "ge")), 0)
    high = next((item.le for item in flat if hasattr(item, "le")), None)
    return low, high


KNOBS: tuple[Knob, ...] = (
    Knob("engine", "mode", "cache mode", "Which states are kept for reuse by later requests."),
    Knob("engine", "block_size", "block size", "Tokens that one block covers."),
    Knob("engine", "num_spec", "drafts per step", "Tokens proposed ahead at each decode step."),
    Knob("engine", "runner", "runner", "V1 decides on the CPU, V2 keeps everything on the GPU."),
    Knob("engine", "layout", "conv layout", "SD: a row per token. DS: a row per channel."),
    Knob("engine", "num_blocks", "blocks", "Size of the pool, the null block included."),
    Knob(
        "engine",
        "max_num_batched_tokens",
        "token budget",
        "Most tokens that one step computes, over all requests.",
    ),
    Knob("engine", "max_num_seqs", "running requests", "Most requests that run at once."),
    Knob(
        "engine",
        "prefill_chunk_limit",
        "chunk limit",
        "Most prompt tokens of one request in one step; empty for no limit.",
    ),
    Knob("engine", "max_model_len", "model length", "Most tokens a request may ever have."),
    Knob("engine", "num_mamba_groups", "Mamba groups", "Cache groups with tables of their own."),
    Knob("engine", "attention_group", "attention group", "Add attention layers to the same pool."),
    Knob(
        "engine",
        "retention",
        "retention",
        "Register every boundary, only the last of a prompt, or one per so many tokens.",
    ),
    Knob(
        "engine",
        "admission_gate",
        "admission gate",
        "Admit a request only if its whole known sequence fits now.",
    ),
    Knob(
        "engine",
        "stop_before_last_token",
        "stop before last token",
        "End a chunk where a later hit on the whole prompt can start.",
    ),
    Knob(
        "engine",
        "register_draft_filled_blocks",
        "register draft-filled blocks",
        "In all mode, register blocks that a query of several tokens finished (unsound).",
    ),
    Knob(
        "engine",
        "drop_last_matched_block",
        "drop last matched block",
        "A hit leaves out its last block, as some draft models need.",
    ),
    Knob(
        "engine",
        "replayssm_buffer_len",
        "ReplaySSM ring",
        "Inputs kept before the full state is written; 0 turns ReplaySSM off.",
    ),
    Knob("engine", "full_cuda_graphs", "full CUDA graphs", "Pad batches to a captured graph."),
    Knob(
        "engine",
        "allow_unsound",
        "allow unsound",
        "Run settings that are known to break, to watch them do so.",
    ),
    Knob("layer", "num_layers", "layers", "Mamba layers; each keeps a state of its own."),
    Knob("layer", "num_heads", "heads", "Heads of a layer; head 0 counts tokens."),
    Knob("layer", "head_dim", "head channels", "Channels of one head."),
    Knob("layer", "d_state", "state size", "Numbers that a channel keeps in the temporal state."),
    Knob("layer", "conv_kernel", "conv kernel", "Inputs the causal convolution looks at."),
    Knob("layer", "chunk_size", "chunk size", "Tokens that prefill kernels take at a time."),
    Knob("layer", "states", "state tensors", "Which states a layer has; Mamba layers have both."),
    Knob("layer", "cache_dtype", "cache dtype", "Number format of the cached states."),
    Knob("layer", "page_padding_bytes", "page padding", "Unused bytes at the end of each page."),
    Knob("layer", "seed", "seed", "Chooses the layers' fixed random weights."),
)

REQUEST_HELP: Mapping[str, str] = {
    "id": "Name of the request; each its own.",
    "prompt": "Token ids, such as 1000..1005 or 7 8 9; leave empty to give a length.",
    "prompt_len": "Prompt length, 1 or more, with tokens of its own; only without a prompt.",
    "arrive": "Step at which it arrives, 0 or more.",
    "max_tokens": "Tokens to generate, 1 or more.",
    "drafts": "Drafts per decode: empty for all, a number, or a list used in turn: 2,0,1.",
    "accept": "Accepted drafts per step: all, none, a list used in turn, or rate 0.7 seed 1.",
    "salt": "Requests with different salts never share a prefix.",
    "outputs": "Token ids to sample, in order; empty for made-up ones.",
}

EVENT_HELP: Mapping[str, str] = {
    "step": "Before the schedule of this step, 0 or more.",
    "kind": "preempt or abort one request; reset drops the prefix cache; "
    "reset_running preempts all first.",
    "request": "Id of the request, for preempt and abort only.",
}

EVENT_KINDS: tuple[str, ...] = get_args(Event.model_fields["kind"].annotation)


# --------------------------------------------------------------------------------------
# A draft: what the widgets hold
# --------------------------------------------------------------------------------------


@dataclass
class RequestRow:
    """One row of the requests table; lists as text."""

    id: str = ""
    prompt: str = ""
    prompt_len: int | None = None
    arrive: int = 0
    max_tokens: int = 8
    drafts: str = ""
    accept: str = "all"
    salt: str = ""
    outputs: str = ""


@dataclass
class EventRow:
    """One row of the events table."""

    step: int = 0
    kind: str = "preempt"
    request: str = ""


@dataclass
class Draft:
    """A scenario being edited: possibly wrong, never lost. ``settings`` by ``Knob.path``."""

    name: str = ""
    story: str = ""
    settings: dict[str, Value] = field(default_factory=dict)
    requests: list[RequestRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def to_draft(scenario: Scenario) -> Draft:
    """The editor's contents for a scenario; `read_draft` is the inverse."""
    return Draft(
        name=scenario.name,
        story=scenario.story,
        settings={knob.path: _setting(scenario, knob) for knob in KNOBS},
        requests=[_request_row(plan) for plan in scenario.requests],
        events=[EventRow(e.step, e.kind, e.request or "") for e in scenario.events],
        faults=list(scenario.faults),
    )


def read_draft(draft: Draft) -> Scenario:
    """The scenario a draft describes. Raises FieldError with one sentence."""
    data: dict[str, Any] = {
        "name": draft.name,
        "story": draft.story,
        "engine": _section(draft, "engine"),
        "layer": _section(draft, "layer"),
        "requests": [_plan(row, index) for index, row in enumerate(draft.requests)],
        "events": [_event(row) for row in draft.events],
        "faults": draft.faults,
    }
    if not data["requests"]:
        raise FieldError("requests", "requests: there is none; add at least one row")
    try:
        return within(build(data), USUAL)
    except ScenarioError as error:
        raise FieldError(field_named(str(error)), str(error)) from None


def field_named(message: str) -> str:
    """The field a scenario's error message begins with, such as ``engine.block_size``."""
    match = re.match(r"(engine|layer)\.\w+|(requests|events)(\[\d+\])?|faults|name|story", message)
    return match.group() if match else ""


def _setting(scenario: Scenario, knob: Knob) -> Value:
    value = getattr(getattr(scenario, knob.section), knob.name)
    return str(value) if knob.kind == "text" else value


def _section(draft: Draft, section: str) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for knob in KNOBS:
        if knob.section == section:
            value = draft.settings[knob.path]
            if knob.kind == "text" and isinstance(value, str) and value.strip().isdecimal():
                value = int(value)
            values[knob.name] = value
    return values


def _request_row(plan: RequestPlan) -> RequestRow:
    return RequestRow(
        id=plan.id,
        prompt=format_tokens(plan.prompt),
        prompt_len=plan.prompt_len,
        arrive=plan.arrive,
        max_tokens=plan.max_tokens,
        drafts=format_drafts(plan.drafts),
        accept=format_accept(plan.accept),
        salt=plan.salt or "",
        outputs=format_tokens(plan.outputs),
    )


def _plan(row: RequestRow, index: int) -> dict[str, Any]:
    where = f"requests[{index}]"
    data: dict[str, Any] = {
        name: value
        for name, value in asdict(row).items()
        if name in ("id", "prompt_len", "arrive", "max_tokens")
    }
    for name, read in (
        ("prompt", parse_tokens),
        ("outputs", parse_tokens),
        ("drafts", parse_drafts),
        ("accept", parse_accept),
    ):
        try:
            data[name] = read(getattr(row, name))
        except ValueError as error:
            raise FieldError(where, f"{where} ({row.id}): {name}: {error}") from None
    data["salt"] = row.salt or None
    return data


def _event(row: EventRow) -> dict[str, Any]:
    return {"step": row.step, "kind": row.kind, "request": row.request.strip() or None}


def rows_from(records: Sequence[Mapping[str, Any]], row: type[Any]) -> list[Any]:
    """Rows of a table widget as dataclass rows; an empty cell takes the field's default."""
    result = []
    for record in records:
        given = {
            item.name: record[item.name]
            for item in fields(row)
            if not _empty(record.get(item.name))
        }
        result.append(row(**given))
    return result


def _empty(cell: Any) -> bool:
    return cell is None or cell == ""


# --------------------------------------------------------------------------------------
# Text for lists
# --------------------------------------------------------------------------------------

# ``rate 0.7`` or ``70%``, and perhaps ``seed 3``
RATE = re.compile(
    r"(?:rate\s*[=:]?\s*(\d*\.?\d+)|(\d+(?:\.\d+)?)\s*%)"
    r"(?:[\s,]+seed\s*[=:]?\s*(\d{1,9}))?"
)


def parse_tokens(text: str) -> list[int] | None:
    """``1000..1005``, ``7 8 9``, ``[7, 8]``: token ids; None for nothing. Raises ValueError."""
    words = re.split(r"[\s,;]+", text.strip().strip("[]()").strip())
    tokens: list[int] = []
    for word in words if words != [""] else []:
        span = re.fullmatch(r"(\d{1,9})(?:\.\.|…|-|–)(\d{1,9})", word)
        if span:
            first, last = int(span[1]), int(span[2])
            if last < first or last - first >= MOST_TOKENS:
                raise ValueError(f"{word!r} is no span of tokens; write it as 1000..1005")
            tokens.extend(range(first, last + 1))
        elif re.fullmatch(r"\d{1,9}", word):
            tokens.append(int(word))
        else:
            raise ValueError(
                f"{word[:20]!r} is no token id; write numbers, such as 1000..1005 or 7 8 9"
            )
        if len(tokens) > MOST_TOKENS:
            raise ValueError(
                f"there are more than {MOST_TOKENS:,} token ids, the most there can be"
            )
    return tokens or None


def format_tokens(tokens: Sequence[int] | None) -> str:
    """Inverse of `parse_tokens`; three and more in a row are written as a span."""
    parts: list[str] = []
    rest = list(tokens or [])
    while rest:
        run = 1
        while run < len(rest) and rest[run] == rest[0] + run:
            run += 1
        if run > 2:
            parts.append(f"{rest[0]}..{rest[run - 1]}")
        else:
            run = 1
            parts.append(str(rest[0]))
        rest = rest[run:]
    return " ".join(parts)


def parse_drafts(text: str) -> DraftPlan | None:
    """Empty for ``num_spec`` at every decode, a number, or a list used in turn."""
    if text.strip().lower() in ("", "all", "num_spec", "default"):
        return None
    counts = _counts(text, "a number of drafts; write a number or a list such as 2,0,1")
    return counts[0] if len(counts) == 1 else counts


def format_drafts(drafts: DraftPlan | None) -> str:
    if drafts is None:
        return ""
    return ",".join(str(count) for count in (drafts if isinstance(drafts, list) else [drafts]))


def parse_accept(text: str) -> AcceptPlan:
    """``all``, ``none``, ``2,0,1``, ``rate 0.7``, ``70% seed 3``. Raises ValueError."""
    word = text.strip().lower()
    if word in ("", "all"):
        return "all"
    if word == "none":
        return "none"
    rate = RATE.fullmatch(word)
    if rate:
        share = float(rate[1]) if rate[1] else float(rate[2]) / 100
        if share > 1:
            raise ValueError(f"a rate of {share:g} is more than everything; give 0 to 1")
        return AcceptanceRate(rate=share, seed=int(rate[3] or 0))
    return _counts(word, "understood; write all, none, a list such as 2,0,1, or rate 0.7")


def format_accept(accept: AcceptPlan) -> str:
    if isinstance(accept, str):
        return accept
    if isinstance(accept, AcceptanceRate):
        seed = f" seed {accept.seed}" if accept.seed else ""
        return f"rate {accept.rate:g}{seed}"
    return ",".join(str(count) for count in accept)


def _counts(text: str, wanted: str) -> list[int]:
    words = [word for word in re.split(r"[\s,;]+", text.strip().strip("[]()").strip()) if word]
    wrong = next((word for word in words if not re.fullmatch(r"\d{1,9}", word)), None)
    if wrong is not None or not words:
        raise ValueError(f"{(wrong or text)[:20]!r} is not {wanted}")
    return [int(word) for word in words]
