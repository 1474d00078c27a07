"""The numbers of a report in words: each with its formula, the rule behind it, and the source."""

from __future__ import annotations

from collections.abc import Iterator

from mambaviz.sizes import memory
from mambaviz.sizes.alignment import CHUNK_WITHOUT_ONE, DEFAULT_BLOCK
from mambaviz.sizes.copy_rates import CopyRate
from mambaviz.sizes.facts import CONFIG, ENGINE, SPEC, YOURS, Fact, Section, binary, decimal
from mambaviz.sizes.families import BYTES_OF, Dtype
from mambaviz.sizes.memory import GIB
from mambaviz.sizes.model import STATE_DTYPE_RULES, Latent, Model
from mambaviz.sizes.report import STEPS, Report
from mambaviz.sizes.settings import MODES, Mode


def sections(report: Report) -> Iterator[Section]:
    """All numbers of a report, in the order in which one follows from the other."""
    yield Section("One recurrent layer, one block, one rank", tuple(_state_facts(report)))
    yield Section("Block sizes", tuple(_block_facts(report)))
    yield Section("Pages", tuple(_page_facts(report)))
    yield Section("A request", tuple(_memory_facts(report)))
    yield Section("A boundary crossing", tuple(_crossing_facts(report)))


def _state_facts(report: Report) -> Iterator[Fact]:
    page, shapes, model = report.page, report.page.shapes, report.model
    calculator = f"{ENGINE}, state shapes of {model.recurrence.family} layers"
    if shapes.conv is not None and page.conv_dtype is not None:
        yield Fact(
            "conv_dim",
            "Conv width D",
            _conv_dim(report),
            "",
            shapes.conv_dim_formula,
            "What passes through the convolution, over all ranks.",
            f"{calculator}; numbers from {CONFIG}",
        )
        yield Fact(
            "conv_state_shape",
            "Conv state",
            shapes.conv if report.settings.layout == "SD" else shapes.conv[::-1],
            page.conv_dtype,
            shapes.conv_formula,
            "K − 1 rows of the last inputs, and a row for each draft where the family takes them. "
            + _layout_words(report),
            f"{calculator}; dtype: {_conv_dtype_words(report)}",
        )
    if shapes.temporal is not None and page.temporal_dtype is not None:
        yield Fact(
            "temporal_state_shape",
            "Temporal state",
            shapes.temporal,
            page.temporal_dtype,
            shapes.temporal_formula,
            "Drafts do not change it: their states stand in blocks of their own.",
            f"{calculator}; dtype: {_temporal_dtype_words(report)}",
        )
    if shapes.conv is not None and page.conv_dtype is not None:
        yield _bytes_fact("conv_bytes", "Conv bytes", shapes.conv, page.conv_dtype)
    if shapes.temporal is not None and page.temporal_dtype is not None:
        yield _bytes_fact("temporal_bytes", "Temporal bytes", shapes.temporal, page.temporal_dtype)
    yield Fact(
        "mamba_page_bytes",
        "State page",
        page.bytes,
        "bytes",
        f"conv + temporal = {page.conv_bytes:,} + {page.temporal_bytes:,}",
        "The states of one layer in one block, whatever number of tokens the block covers.",
        f"{ENGINE}, page size of recurrent layers",
    )
    yield Fact(
        "mamba_bytes_all_layers",
        "All recurrent layers",
        page.bytes * model.mamba_layers,
        "bytes",
        f"{model.mamba_layers} layers × {page.bytes:,}",
        "One state of a request in the whole model, without padding.",
        CONFIG,
    )


def _conv_dim(report: Report) -> int:
    conv = report.page.shapes.conv
    return conv[1] * report.settings.tp if conv else 0


def _bytes_fact(key: str, label: str, shape: tuple[int, ...], dtype: Dtype) -> Fact:
    product = " × ".join(f"{size:,}" for size in shape)
    count = BYTES_OF[dtype]
    for size_ in shape:
        count *= size_
    return Fact(
        key,
        label,
        count,
        "bytes",
        f"{product} × {BYTES_OF[dtype]}",
        f"Elements times the {BYTES_OF[dtype]} bytes of {dtype}.",
        f"{ENGINE}, page size of recurrent layers",
    )


def _layout_words(report: Report) -> str:
    if report.settings.layout == "SD":
        return "SD writes a row a token: (state_len, dim)."
    return "DS writes a row a channel: (dim, state_len); it has as many bytes as SD."


def _conv_dtype_words(report: Report) -> str:
    if report.settings.conv_dtype != "auto":
        return YOURS
    return "auto is the model’s own"


def _temporal_dtype_words(report: Report) -> str:
    if report.settings.temporal_dtype != "auto":
        return YOURS
    return STATE_DTYPE_RULES[report.model.state_dtype_rule]


def _block_facts(report: Report) -> Iterator[Fact]:
    alignment, token, settings = report.alignment, report.token, report.settings
    source = f"{ENGINE}, alignment of block sizes"
    if alignment is None or token is None:
        yield Fact(
            "attention_block_size",
            "Attention block",
            None,
            "",
            "no attention layer",
            "There is no second kind of page to align with.",
            CONFIG,
        )
    else:
        yield Fact(
            "attention_bytes_per_token_per_layer",
            "One token of attention",
            token.bytes,
            "bytes",
            token.formula,
            _token_rule(report.model),
            f"{ENGINE}, page size of attention; KV dtype {token.dtype}: "
            + (YOURS if settings.kv_dtype != "auto" else "auto is the model’s own"),
        )
        yield Fact(
            "grain",
            "Grain",
            alignment.grain,
            "tokens",
            alignment.grain_formula,
            "The block is a multiple of it. A configured block size works as the grain; without "
            f"one it is {DEFAULT_BLOCK}. Attention kernels ask for at least "
            f"{alignment.kernel_block} here.",
            source,
        )
        yield Fact(
            "tokens_to_cover_state",
            "Tokens that cover a state",
            alignment.tokens_to_cover,
            "tokens",
            f"⌈{report.page.bytes:,} / {token.bytes:,}⌉ = ⌈{report.page.bytes / token.bytes:,.1f}⌉",
            "So many tokens of attention take as much as one state page.",
            source,
        )
        yield Fact(
            "attention_block_size",
            "Attention block",
            alignment.block,
            "tokens",
            f"{alignment.unit} × ⌈{report.page.bytes:,} / ({alignment.unit} × {token.bytes:,})⌉"
            + (f", {alignment.unit_formula}" if settings.mode == "all" else ""),
            "Raised until its page covers the state page, in whole units, and to a multiple that "
            "every kernel takes"
            + ("." if alignment.raised else "; the configured block is wide enough and stays."),
            source
            + (
                " (all mode: earlier releases, until spring 2026)" if settings.mode == "all" else ""
            ),
        )
    yield _mamba_block_fact(report)
    yield _chunk_fact(report)
    yield _hash_fact(report)


def _token_rule(model: Model) -> str:
    if isinstance(model.attention, Latent):
        return "MLA keeps one latent vector a token, no separate V, the same on every rank."
    return "K and V of the KV heads of a rank; below one a rank they are repeated."


def _mamba_block_fact(report: Report) -> Fact:
    mode, block = report.settings.mode, report.block
    if mode == "none":
        return Fact(
            "mamba_block_size",
            "Recurrent block",
            "the whole length",
            "",
            "max_model_len",
            "none mode: one block covers every token of a request.",
            f"{SPEC} 2",
        )
    if report.alignment is None:
        rule = "There is no attention block to follow."
        formula = f"configured block = {block:,}"
    elif mode == "align":
        rule, formula = "align mode sets it to the attention block.", f"attention block = {block:,}"
    else:
        rule = "all mode: the same block, whole chunks, since states exist at chunk ends."
        formula = f"attention block = {block:,}"
    return Fact(
        "mamba_block_size",
        "Recurrent block",
        block,
        "tokens",
        formula,
        rule,
        f"{ENGINE}, alignment of block sizes",
    )


def _chunk_fact(report: Report) -> Fact:
    chunk = report.model.chunk_size
    if chunk is None:
        return Fact(
            "chunk_size",
            "Chunk of the prefill",
            None,
            "",
            f"not in the config; all mode takes {CHUNK_WITHOUT_ONE:,} then",
            "It changes no shape. Only all mode puts it into the block.",
            CONFIG,
        )
    fits = "divides" if report.block % chunk == 0 else "does not divide"
    return Fact(
        "chunk_size",
        "Chunk of the prefill",
        chunk,
        "tokens",
        f"{fits} the block of {report.block:,}",
        "Tokens that the prefill kernel takes at once; the model says it. It changes no shape.",
        CONFIG,
    )


def _hash_fact(report: Report) -> Fact:
    if report.settings.mode == "none":
        return Fact(
            "hash_block_size",
            "Block of the prefix hash",
            None,
            "",
            "no prefix caching",
            "none mode registers nothing.",
            f"{SPEC} 2",
        )
    return Fact(
        "hash_block_size",
        "Block of the prefix hash",
        report.block,
        "tokens",
        f"one link a block = {report.block:,}",
        "A chain of hashes, one link for the tokens of each block; both kinds of layer have the "
        "same block here.",
        f"{SPEC} 2; derived, since start-up logs do not tell it",
    )


def _page_facts(report: Report) -> Iterator[Fact]:
    alignment, token, model = report.alignment, report.token, report.model
    if alignment is not None and token is not None:
        source = f"{ENGINE}, alignment of block sizes"
        yield Fact(
            "aligned_page_bytes",
            "Page of the pool",
            alignment.attention_page,
            "bytes",
            f"{alignment.block:,} tokens × {token.bytes:,}",
            "Both kinds of layer draw from one pool, so one page size for all.",
            source,
        )
        yield Fact(
            "padding_bytes",
            "Padding of a state page",
            alignment.padding,
            "bytes",
            f"{alignment.attention_page:,} − {report.page.bytes:,}",
            "What the attention page has beyond the state, unused in every recurrent layer.",
            source,
        )
        yield Fact(
            "padding_percent",
            "Padding",
            f"{alignment.padding_percent:.2f} %",
            "",
            f"100 × {alignment.padding:,} / {report.page.bytes:,}",
            "As start-up logs print it; they print nothing where it is zero.",
            source,
        )
        yield Fact(
            "attention_bytes_per_token_all_layers",
            "A token in all attention layers",
            token.bytes * model.attention_layers,
            "bytes",
            f"{model.attention_layers} layers × {token.bytes:,}",
            "What a token adds while a request grows, on average over a block.",
            CONFIG,
        )
    else:
        yield Fact(
            "aligned_page_bytes",
            "Page of the pool",
            report.page_bytes,
            "bytes",
            "the state page",
            "Without attention nothing is padded.",
            CONFIG,
        )


def _memory_facts(report: Report) -> Iterator[Fact]:
    settings, layout = report.settings, report.layout
    tokens = settings.sequence
    for mode in MODES:
        here = report.layout_in(mode)
        blocks = memory.state_blocks(here, mode, tokens)
        held = memory.request_bytes(here, mode, tokens)
        attention = memory.attention_blocks(here, tokens)
        formula = f"{here.mamba_layers} layers × {blocks:,} block{'s' * (blocks != 1)}"
        if here.attention_layers:
            formula += f" + {here.attention_layers} × {attention:,}"
        yield Fact(
            f"request_bytes_{mode}",
            f"Held in {mode} mode",
            held,
            "bytes",
            f"({formula}) × {here.page:,} = {binary(held)}",
            f"At most, with {tokens:,} tokens. {BLOCK_RULES[mode]} Attention: ⌈tokens / block⌉ "
            "blocks. Left out: the null block, and groups of layers rounded up.",
            f"{ENGINE}, blocks per request; {SPEC} 2",
        )
    yield Fact(
        "requests_that_fit",
        f"Requests that fit in {decimal(settings.memory_gib)} GiB",
        memory.requests_that_fit(layout, settings.mode, tokens, settings.memory_gib),
        "",
        f"⌊pages / pages of a request⌋ = "
        f"⌊{int(settings.memory_gib * GIB) // layout.page:,} / "
        f"{memory.request_bytes(layout, settings.mode, tokens) // layout.page:,}⌋",
        f"In {settings.mode} mode, {tokens:,} tokens each, in what is left for the cache on one "
        "rank beside weights and activations.",
        YOURS,
    )


EARLIER = "; all mode as in earlier releases, last seen in spring 2026"
BLOCK_RULES: dict[Mode, str] = {
    "none": "One state block and one for each draft.",
    "align": "The running block, the one before it, and one for each draft (one more if a prefill "
    "saves checkpoints). A cached boundary state beyond these is free to be taken.",
    "all": "A block for every column, and one for each draft.",
}


def _crossing_facts(report: Report) -> Iterator[Fact]:
    settings, kept, block, copies = report.settings, report.kept, report.block, report.copies
    drafts, rate = report.drafts, report.crossings
    yield Fact(
        "kept_tokens",
        "Tokens kept in a step",
        kept.mean,
        "",
        _kept_formula(drafts, settings.acceptance),
        "Each draft is kept with that chance if those before it were; one token always is.",
        f"{YOURS}; geometric series",
    )
    yield Fact(
        "crossings_per_thousand",
        f"Crossings in {STEPS:,} decode steps",
        rate,
        "",
        f"{STEPS:,} × {decimal(kept.mean)} / {block:,}"
        if rate is not None
        else f"a step of 1 + {drafts} tokens does not fit a block of {block}",
        "The running column moves on once a block. In the long run, for one request.",
        f"{SPEC} 2; checked against the scheduler",
    )
    if not report.copies_states:
        yield Fact(
            "crossing_bytes",
            "Copied at a crossing",
            0,
            "bytes",
            "nothing is copied",
            "none mode never leaves its block; all mode has the forward write where the state is "
            "wanted.",
            f"{SPEC}s 2 and 5",
        )
        return
    yield Fact(
        "migrate_bytes",
        "Migrate",
        round(copies.migrate),
        "bytes",
        f"{report.model.mamba_layers} × ({report.page.bytes:,} − {decimal(kept.migrate_bias)} × "
        f"{report.page.conv_row_bytes:,})",
        _migrate_rule(report),
        f"{SPEC} 3.1; checked against the engine",
    )
    if drafts:
        yield Fact(
            "checkpoint_bytes",
            "Checkpoint",
            round(copies.checkpoint),
            "bytes",
            f"{report.model.mamba_layers} × ({report.page.bytes:,} − "
            f"{decimal(kept.checkpoint_bias)} × {report.page.conv_row_bytes:,})",
            "After acceptance, to the boundary that kept tokens reached; bias "
            f"{decimal(kept.checkpoint_bias)} on average.",
            f"{SPEC} 3.2; checked against the engine",
        )
    yield Fact(
        "crossing_bytes",
        "Copied at a crossing",
        round(copies.total),
        "bytes",
        f"{'migrate + checkpoint' if drafts else 'migrate'} = {binary(copies.total)}, at most "
        f"{copies.at_most:,}",
        "Natural bytes, never the padding; SD and DS copy as many.",
        f"{SPEC} 3.1",
    )
    yield from _time_facts(report, rate)


def _kept_formula(drafts: int, chance: float) -> str:
    if not drafts:
        return "no drafts: one token a step"
    powers = ["1", f"{chance:g}", *(f"{chance:g}^{n}" for n in range(2, drafts + 1))]
    shown = powers if len(powers) <= 5 else [*powers[:3], "…", powers[-1]]
    return " + ".join(shown)


def _migrate_rule(report: Report) -> str:
    """What a migrate copies, in words."""
    conv, bias = report.page.shapes.conv, decimal(report.kept.migrate_bias)
    rule = "Before the forward, into the new running block: "
    if conv is None:
        return f"{rule}all of the temporal state."
    temporal = "all of the temporal state, " if report.page.shapes.temporal else ""
    runs = "a run of bytes a layer"
    if report.settings.layout == "DS":
        runs = f"a run for each of {conv[1]:,} channels as soon as the window shifts"
    return (
        f"{rule}{temporal}the conv window without the rows of its bias, {bias} on average. "
        f"{report.settings.layout}: {runs}."
    )


NO_TIME_RULE = (
    "A rate of large copies says nothing about a small one, which its launch rules. make bench on "
    "a GPU writes the measurements."
)


def _time_facts(report: Report, rate: float | None) -> Iterator[Fact]:
    """The time of both copies, which are nearly of a size, at the rate of one measured launch."""
    copies, measured = report.copies, report.rate_of(report.copies.migrate)
    if measured is None:
        yield Fact(
            "crossing_us",
            "Time of a crossing",
            None,
            "",
            "no measured launch copies nearly as little" if report.rates else "nothing measured",
            NO_TIME_RULE,
            "benchmarks/results",
        )
        return
    time = copies.total / measured.bytes_per_microsecond
    yield Fact(
        "crossing_us",
        "Time of a crossing",
        time,
        "µs",
        f"{binary(copies.total)} at {_rate(measured)}",
        f"At the rate of the measured launch that copies most nearly as much: {measured.name}. "
        "Bytes that arrived; a table of bytes read and written says twice as many.",
        measured.source,
    )
    if rate is not None:
        yield Fact(
            "crossing_us_per_step",
            "Spread over decode steps",
            time * rate / STEPS,
            "µs a step",
            f"{decimal(time)} µs × {decimal(rate)} / {STEPS:,}",
            "What crossings add to a step of one request on average.",
            measured.source,
        )


def _rate(rate: CopyRate) -> str:
    """Bytes arrived, not bytes read and written."""
    return f"{rate.bytes_per_microsecond / 1e6:.2f} TB/s"
