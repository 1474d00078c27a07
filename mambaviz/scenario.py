"""What the user asks for: one scenario is a page, a notebook cell, a test, a command line, a link.

A `Scenario` is data alone. It is validated completely before step 0: whatever the
engine could stumble over is refused here with one line that names the field, the value
and what would be right (section 2, "What bad input gets"). Importing this module costs
no torch.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from mambaviz import json_text
from mambaviz.faults import FAULTS, fault_problems
from mambaviz.limits import (
    LONGEST_NAME,
    LONGEST_REQUEST,
    LONGEST_SENTENCE,
    LONGEST_STORY,
    MOST_BLOCKS,
    MOST_DRAFTS,
    MOST_EDITS,
    MOST_EVENTS,
    MOST_LAYERS,
    MOST_PADDING,
    MOST_REQUESTS,
    MOST_STEPS,
    MOST_TOKENS,
)

PRESET_DIR = Path(__file__).parent / "presets"

# Largest token count that head 0 can hold exactly (section 5.1): integers up to here have
# a representation of their own in the cache's dtype.
EXACT_COUNT_LIMIT = {"float32": 2**24, "float16": 2048, "bfloat16": 256}

TokenCount = Annotated[int, Field(ge=1, le=MOST_TOKENS)]
StepIndex = Annotated[int, Field(ge=0, le=MOST_STEPS)]
DraftCount = Annotated[int, Field(ge=0, le=MOST_DRAFTS)]
TokenId = Annotated[int, Field(ge=0, lt=2**53)]  # what JSON numbers keep exactly everywhere
Seed = Annotated[int, Field(ge=0, lt=2**53)]
Name = Annotated[str, Field(max_length=LONGEST_NAME)]


class ScenarioError(ValueError):
    """A scenario that cannot run. The message is one line fit for a screen."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class _Data(BaseModel):
    """Plain frozen data; an unknown field is a mistake worth naming."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class EngineSettings(_Data):
    """How the serving engine is set up (section 6 gives the defaults)."""

    mode: Literal["none", "align", "all"] = "align"
    runner: Literal["v1", "v2"] = "v1"
    layout: Literal["SD", "DS"] = "SD"
    block_size: TokenCount = 4
    num_spec: DraftCount = 2
    num_blocks: Annotated[int, Field(ge=2, le=MOST_BLOCKS)] = 16  # the null block included
    max_num_batched_tokens: TokenCount = 64
    max_num_seqs: Annotated[int, Field(ge=1, le=MOST_REQUESTS)] = 8
    prefill_chunk_limit: TokenCount | None = None
    max_model_len: Annotated[int, Field(ge=2, le=MOST_TOKENS)] = 64
    num_mamba_groups: Annotated[int, Field(ge=1, le=4)] = 1
    attention_group: bool = False
    retention: Literal["dense", "boundary"] | TokenCount = "dense"
    admission_gate: bool = True
    stop_before_last_token: bool = True
    register_draft_filled_blocks: bool = False
    drop_last_matched_block: bool = False
    replayssm_buffer_len: Annotated[int, Field(ge=0, le=256)] = 0  # 0 = off
    full_cuda_graphs: bool = False
    allow_unsound: bool = False

    @property
    def effective_block_size(self) -> int:
        """Tokens a block covers; in none mode one block covers the whole model length."""
        return self.max_model_len if self.mode == "none" else self.block_size

    @property
    def largest_chunk(self) -> int:
        """Most prefill tokens one step can compute for one request."""
        return min(self.max_num_batched_tokens, self.prefill_chunk_limit or 2**31)


class LayerSettings(_Data):
    """The small Mamba-2 style layers that make real state (section 5.1)."""

    num_layers: Annotated[int, Field(ge=1, le=MOST_LAYERS)] = 2
    num_heads: Annotated[int, Field(ge=1, le=16)] = 2
    head_dim: Annotated[int, Field(ge=1, le=16)] = 2
    d_state: Annotated[int, Field(ge=1, le=32)] = 4
    conv_kernel: Annotated[int, Field(ge=2, le=4)] = 4
    chunk_size: TokenCount = 4
    states: Literal["both", "conv", "temporal"] = "both"  # which state tensors a layer has
    cache_dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    page_padding_bytes: Annotated[int, Field(ge=0, le=MOST_PADDING)] = 0
    seed: Seed = 0


class AcceptanceRate(_Data):
    """Each draft is accepted with probability ``rate``, until the first that is not."""

    rate: Annotated[float, Field(ge=0.0, le=1.0)]
    seed: Seed = 0


DraftList = Annotated[list[DraftCount], Field(min_length=1, max_length=MOST_STEPS)]
DraftPlan = DraftCount | DraftList
AcceptPlan = Literal["all", "none"] | DraftList | AcceptanceRate


class RequestPlan(_Data):
    """One request: its prompt, when it arrives, and what verification will accept.

    ``accept`` counts accepted *drafts* per verification (the bonus token is not counted),
    cyclically. ``outputs`` scripts the sampled tokens; without it the token at position p is
    ``1000 * (last prompt token // 1000) + p``.
    """

    id: Annotated[str, Field(min_length=1, max_length=LONGEST_REQUEST)]
    prompt: Annotated[list[TokenId], Field(min_length=1, max_length=MOST_TOKENS)] | None = None
    prompt_len: TokenCount | None = None
    arrive: Annotated[int, Field(ge=0, le=1_000)] = 0
    max_tokens: TokenCount = 8
    drafts: DraftPlan | None = None  # None = num_spec at every decode
    accept: AcceptPlan = "all"
    salt: Name | None = None
    outputs: Annotated[list[TokenId], Field(max_length=MOST_TOKENS)] | None = None

    @model_validator(mode="after")
    def _one_prompt(self) -> Self:
        if (self.prompt is None) == (self.prompt_len is None):
            raise ValueError("give either prompt (token ids) or prompt_len, not both or neither")
        return self

    @property
    def num_prompt_tokens(self) -> int:
        if self.prompt is not None:
            return len(self.prompt)
        assert self.prompt_len is not None
        return self.prompt_len


class Event(_Data):
    """Something done to the engine before the schedule of ``step``."""

    step: StepIndex
    kind: Literal["preempt", "abort", "reset", "reset_running"]
    request: Name | None = None

    @model_validator(mode="after")
    def _names_its_request(self) -> Self:
        wants = self.kind in ("preempt", "abort")
        if wants and self.request is None:
            raise ValueError(f"kind {self.kind} needs the id of a request")
        if not wants and self.request is not None:
            raise ValueError(f"kind {self.kind} concerns all requests; leave request out")
        return self


class Edit(_Data):
    """One number overwritten by hand, to see which invariant names the damage ("what-if").

    ``worker_row`` puts block id ``value`` into a column of a request's worker row, from
    ``step`` on. ``metadata`` overwrites one entry of a metadata tensor of that step alone.
    """

    step: StepIndex
    kind: Literal["worker_row", "metadata"]
    group: Annotated[int, Field(ge=0, le=3)] = 0
    request: Name | None = None  # worker_row: whose
    column: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = None
    field: Name | None = None  # metadata: which tensor
    index: Annotated[list[StepIndex], Field(min_length=1, max_length=2)] | None = None
    value: Annotated[int, Field(ge=-(2**31), lt=2**31)]

    @model_validator(mode="after")
    def _names_its_place(self) -> Self:
        row, tensor = (self.request, self.column), (self.field, self.index)
        wanted, unwanted = (row, tensor) if self.kind == "worker_row" else (tensor, row)
        if None in wanted or unwanted != (None, None):
            names = "request and column" if self.kind == "worker_row" else "field and index"
            raise ValueError(f"a {self.kind} edit needs {names}, and nothing else beside value")
        return self


class Scenario(_Data):
    """A complete, validated description of one run."""

    name: Name = "untitled"
    story: Annotated[str, Field(max_length=LONGEST_STORY)] = ""
    engine: EngineSettings = EngineSettings()
    layer: LayerSettings = LayerSettings()
    requests: Annotated[list[RequestPlan], Field(min_length=1, max_length=MOST_REQUESTS)]
    events: Annotated[list[Event], Field(max_length=MOST_EVENTS)] = []
    edits: Annotated[list[Edit], Field(max_length=MOST_EDITS)] = []
    faults: Annotated[list[Name], Field(max_length=len(FAULTS))] = []

    @model_validator(mode="after")
    def _can_run(self) -> Self:
        problem = next(_problems(self), None)
        if problem is not None:
            raise ValueError(problem)
        return self

    @property
    def content_hash(self) -> str:
        """SHA-256 over what decides the run: everything but the name and the story."""
        # Defaults left out: a field that a later version adds does not rename every old run.
        content = self.model_dump(mode="json", exclude={"name", "story"}, exclude_defaults=True)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def prompt_of(self, index: int) -> list[int]:
        """Token ids of request number ``index``; with ``prompt_len`` they are its very own."""
        plan = self.requests[index]
        if plan.prompt is not None:
            return list(plan.prompt)
        return [1000 * (index + 1) + position for position in range(plan.num_prompt_tokens)]


# --------------------------------------------------------------------------------------
# What cannot run, each with its sentence: field, value, what would be right.
# --------------------------------------------------------------------------------------


def _problems(scenario: Scenario) -> Iterator[str]:
    yield from _engine_problems(scenario)
    yield from _request_problems(scenario)
    yield from _event_problems(scenario)
    yield from _edit_problems(scenario)
    yield from fault_problems(scenario)


def _engine_problems(scenario: Scenario) -> Iterator[str]:
    engine = scenario.engine
    block_size, num_spec = engine.block_size, engine.num_spec
    if engine.mode == "align" and 1 + num_spec > block_size and not engine.allow_unsound:
        yield (
            f"engine.num_spec = {num_spec}: in align mode 1 + num_spec must not exceed "
            f"block_size ({block_size}), or the checkpoint column of the worker's row can name a "
            "live scratch block; lower num_spec, widen the block, or set allow_unsound to watch it"
        )
    if engine.mode == "all" and engine.runner == "v2":
        yield "engine.runner = 'v2': all mode runs on the V1 runner only; choose 'v1'"
    if engine.mode == "all" and block_size % scenario.layer.chunk_size:
        yield (
            f"engine.block_size = {block_size}: in all mode it must be a multiple of "
            f"layer.chunk_size ({scenario.layer.chunk_size}), since states exist only at chunk ends"
        )
    if engine.num_mamba_groups > scenario.layer.num_layers:
        yield (
            f"engine.num_mamba_groups = {engine.num_mamba_groups}: every group needs a layer, but "
            f"layer.num_layers is {scenario.layer.num_layers}"
        )
    if engine.replayssm_buffer_len:
        length = engine.replayssm_buffer_len
        if num_spec:
            yield (
                f"engine.replayssm_buffer_len = {length}: ReplaySSM does not go with drafts; "
                "set num_spec to 0"
            )
        if engine.mode == "all":
            yield (
                f"engine.replayssm_buffer_len = {length}: ReplaySSM runs in none and align mode "
                "only"
            )
        if scenario.layer.states != "both":
            yield (
                f"engine.replayssm_buffer_len = {length}: ReplaySSM needs layers with conv and "
                "temporal state; set layer.states to 'both'"
            )
        if engine.runner == "v2":
            yield f"engine.replayssm_buffer_len = {length}: ReplaySSM runs on the V1 runner only"


def _request_problems(scenario: Scenario) -> Iterator[str]:
    engine, layer = scenario.engine, scenario.layer
    seen: set[str] = set()
    for index, plan in enumerate(scenario.requests):
        where = f"requests[{index}] ({plan.id})"
        if plan.id in seen:
            yield f"{where}: the id is taken; every request needs its own"
        seen.add(plan.id)
        prompt = plan.num_prompt_tokens
        if prompt >= engine.max_model_len:
            yield (
                f"{where}: a prompt of {prompt} tokens leaves no room below max_model_len "
                f"({engine.max_model_len}); shorten it or raise max_model_len"
            )
        yield from _plan_problems(where, plan, engine.num_spec)
        longest = min(prompt + plan.max_tokens + engine.num_spec, engine.max_model_len)
        limit = EXACT_COUNT_LIMIT[layer.cache_dtype]
        if longest > limit:
            yield (
                f"{where}: up to {longest} tokens, but a {layer.cache_dtype} cache counts exactly "
                f"only up to {limit}; shorten the request or choose float32 in layer.cache_dtype"
            )
        needed = blocks_to_admit(scenario, prompt)
        if needed > engine.num_blocks - 1 and not engine.allow_unsound:
            yield (
                f"{where}: a prompt of {prompt} tokens needs {needed} blocks, but the pool holds "
                f"{engine.num_blocks - 1} beside the null block; raise num_blocks to at least "
                f"{needed + 1} or shorten the prompt"
            )


def _plan_problems(where: str, plan: RequestPlan, num_spec: int) -> Iterator[str]:
    drafts = plan.drafts if isinstance(plan.drafts, list) else [plan.drafts]
    for count in drafts:
        if count is not None and count > num_spec:
            yield f"{where}: drafts = {count}, but num_spec is {num_spec}; allowed 0 to {num_spec}"
    if isinstance(plan.accept, list):
        for count in plan.accept:
            if count > num_spec:
                yield (
                    f"{where}: accept = {count} drafts, but a step proposes at most {num_spec}; "
                    f"allowed 0 to {num_spec}"
                )


def _event_problems(scenario: Scenario) -> Iterator[str]:
    ids = {plan.id for plan in scenario.requests}
    for index, event in enumerate(scenario.events):
        if event.request is not None and event.request not in ids:
            yield f"events[{index}].request: {_no_request(event.request, ids)}"


def _edit_problems(scenario: Scenario) -> Iterator[str]:
    ids = {plan.id for plan in scenario.requests}
    for index, edit in enumerate(scenario.edits):
        where = f"edits[{index}]"
        if edit.request is not None and edit.request not in ids:
            yield f"{where}.request: {_no_request(edit.request, ids)}"
        if edit.group >= scenario.engine.num_mamba_groups:
            yield (
                f"{where}: group = {edit.group}, but there are "
                f"{scenario.engine.num_mamba_groups} Mamba groups, counted from 0"
            )


def _no_request(name: str, ids: set[str]) -> str:
    known = ", ".join(sorted(ids)[:8]) + (", …" if len(ids) > 8 else "")
    return f"there is no request {_shorten(name)}; choose from {known}"


def blocks_to_admit(scenario: Scenario, num_tokens: int) -> int:
    """Most real blocks that admitting ``num_tokens`` known tokens can ask for at once (section 2).

    none: ``1 + S``. align: the running block and its scratch, per Mamba group. all: every column.
    An attention group adds its full columns.
    """
    engine = scenario.engine
    scratch = engine.num_spec
    columns = -(-num_tokens // engine.block_size)
    per_group = columns + scratch if engine.mode == "all" else 1 + scratch
    attention = columns if engine.attention_group else 0
    return per_group * engine.num_mamba_groups + attention


# --------------------------------------------------------------------------------------
# In and out
# --------------------------------------------------------------------------------------


def explain(error: ValidationError, grammar: Grammar | None = None) -> str:
    """The first thing wrong, as one line: where, what, what would be right.

    ``grammar`` says which models the error is about; None for a scenario.
    """
    grammar = grammar or SCENARIO_GRAMMAR
    first = error.errors(include_url=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    location = first["loc"]
    if first["type"] == "extra_forbidden":
        return _unknown_field(location, grammar)
    choice = next((name for name in grammar.choices if name in location), None)
    if choice is not None:  # a union: pydantic reports each of its members apart
        location = location[: location.index(choice) + 1]
        return f"{_place(location)}: must be {grammar.choices[choice]}"
    place = _place(location)
    if not place:
        whole = grammar.called or grammar.whole.__name__.lower()
        return f"a {whole} must be an object of fields" if "model" in first["type"] else message
    if first["type"] == "missing":
        return f"{place}: this field is required"
    allowed = _allowed(location, grammar) if "than" in first["type"] else None
    return f"{place} = {_shorten(first['input'])}: {allowed or message[0].lower() + message[1:]}"


# Fields that take one of several kinds of value, in words.
CHOICES = {
    "accept": "'all', 'none', a list of accepted drafts such as [2, 0], or "
    '{"rate": 0 to 1, "seed": a number}',
    "drafts": f"a number of drafts from 0 to {MOST_DRAFTS}, or a list of them",
    "retention": f"'dense', 'boundary', or a number of tokens from 1 to {MOST_TOKENS}",
}


@dataclass(frozen=True)
class Grammar:
    """What an explanation needs to know of the data: the whole, its parts by field, the unions."""

    whole: type[BaseModel]
    parts: Mapping[str, type[BaseModel]]
    choices: Mapping[str, str]
    called: str = ""  # the whole, in a sentence; empty: as its class

    def model_at(self, parents: Sequence[int | str]) -> type[BaseModel]:
        return self.parts.get(str(parents[0]), self.whole) if parents else self.whole


SCENARIO_GRAMMAR = Grammar(
    Scenario,
    {
        "engine": EngineSettings,
        "layer": LayerSettings,
        "requests": RequestPlan,
        "events": Event,
        "edits": Edit,
    },
    CHOICES,
)


def _unknown_field(location: tuple[int | str, ...], grammar: Grammar) -> str:
    """A field that does not exist, and the one that was probably meant."""
    *parents, name = location
    place = _place(tuple(parents))
    fields = grammar.model_at(parents).model_fields
    near = difflib.get_close_matches(str(name), fields, n=1)
    meant = f"did you mean {near[0]}?" if near else f"the fields are {', '.join(fields)}"
    shown = name if str(name).isidentifier() else _shorten(name)
    return f"{f'{place}.' if place else ''}{shown}: there is no such field; {meant}"


def _allowed(location: tuple[int | str, ...], grammar: Grammar) -> str | None:
    """The range of a number's field, in words; None for a field without one."""
    field = grammar.model_at(location[:-1]).model_fields.get(str(location[-1]))
    bounds = {
        kind: getattr(limit, kind)
        for limit in (_limits(field) if field is not None else ())
        for kind in ("ge", "le", "lt")
        if hasattr(limit, kind)
    }
    if "ge" not in bounds:
        return None
    top = bounds.get("le", bounds.get("lt", 0) - 1)
    return f"allowed {bounds['ge']} to {top}"


def _limits(field: FieldInfo) -> Iterator[Any]:
    """The limits of a field's number, also where the number may be left out (``int | None``)."""
    yield from field.metadata
    for member in get_args(field.annotation):
        for info in getattr(member, "__metadata__", ()):
            yield from getattr(info, "metadata", ())


def _place(location: tuple[int | str, ...]) -> str:
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def _shorten(value: Any, limit: int = 60) -> str:
    """The value as one would type it, cut where it gets too long to read."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def one_line(text: str, limit: int = LONGEST_SENTENCE) -> str:
    """Control characters written out, so that a stranger's text stays one printable line."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def name_with(name: str, words: str) -> str:
    """A scenario's name with what was changed in it, as long as a name can be."""
    behind = f", {words}"
    room = LONGEST_NAME - len(behind)
    return (name if len(name) <= room else f"{name[: room - 1]}…") + behind


def parse(text: str) -> Scenario:
    """A scenario from JSON text. Raises `ScenarioError` with one line."""
    return json_text.parsed(Scenario, text, explain, ScenarioError)


def build(data: Mapping[str, Any]) -> Scenario:
    """A scenario from a plain mapping, as an editor holds it. Raises `ScenarioError`."""
    return json_text.built(Scenario, data, explain, ScenarioError)


def load(path: str | Path) -> Scenario:
    """A scenario from a JSON file. Raises `ScenarioError`, also for a file that cannot be read."""
    text = json_text.text_of(path, ScenarioError)
    try:
        return parse(text)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from None


# --------------------------------------------------------------------------------------
# Recordings of a real engine (tests/golden/engine.json)
# --------------------------------------------------------------------------------------

_RETENTION = {None: "dense", 0: "boundary"}


def from_recording(trace: Mapping[str, Any]) -> Scenario:
    """The scenario that an entry of ``engine.json`` was recorded from."""
    config = trace["config"]
    kinds = config.get("group_kinds") or config["effective"]["managers"]
    attention = any("attention" in kind.lower() for kind in kinds)
    retention = config.get("retention")
    return Scenario(
        name=trace["id"],
        story=f"Recorded from a real engine, version {trace['vllm_version']} ({trace['how']}).",
        engine=EngineSettings(
            mode=config["mode"],
            block_size=config["B"],
            num_spec=config["S"],
            num_blocks=config["num_blocks"],
            max_num_batched_tokens=config["budget"],
            max_num_seqs=config.get("max_num_seqs", 4 if trace["how"] == "engine" else 8),
            prefill_chunk_limit=config.get("long_prefill"),
            max_model_len=config["max_model_len"],
            num_mamba_groups=len(kinds) - attention,
            attention_group=attention,
            retention=_RETENTION.get(retention, retention),
            admission_gate=config.get("reserve_full_isl", True),
            # 0.30.0 lacks the stop; the one recording of 0.32.0 has it.
            stop_before_last_token=trace["vllm_version"] != "0.30.0",
            register_draft_filled_blocks=config["mode"] == "all" and config["S"] > 0,
            allow_unsound=True,  # a recording is replayed as it was, sound or not
        ),
        requests=[
            RequestPlan(
                id=request["id"],
                prompt=request["prompt_tokens"],
                arrive=request["arrive"],
                max_tokens=request["max_tokens"],
                drafts=request.get("drafts"),
                accept=request.get("accept", "all"),
                salt=request.get("salt"),
                outputs=request.get("output_tokens"),
            )
            for request in trace["requests"]
        ],
        events=[
            Event(step=action[0], kind=action[1], request=(action[2:] or [None])[0])
            for action in trace["actions"]
        ],
    )


# --------------------------------------------------------------------------------------
# Presets
# --------------------------------------------------------------------------------------

DEFAULT_PRESET = "drafts-meet-the-boundary"

# Rules of the specification that break an invariant, each kept as its smallest scenario.
UNSOUND_PRESETS = frozenset(
    {"padded-first-token", "drafts-wider-than-the-block", "draft-filled-blocks"}
)


def _load_presets() -> dict[str, Scenario]:
    paths = sorted(PRESET_DIR.glob("*.json"))
    presets = {path.stem.split("-", 1)[1]: load(path) for path in paths}
    return presets


PRESETS: dict[str, Scenario] = _load_presets()
