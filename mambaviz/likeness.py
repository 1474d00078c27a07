"""What is exactly as in a real serving engine here, and what is not: the About page reads this.

    LIKENESSES[0].kind      # "exact"

"Real engine" means vLLM, whose terms the specification uses. A row that claims to be exact names
the tests that hold it against recordings or a second implementation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["exact", "simplified", "left out", "added"]
KINDS: tuple[Kind, ...] = get_args(Kind)

KIND_MEANING: dict[Kind, str] = {
    "exact": "the same rule, number or byte as in the real engine",
    "simplified": "there, but smaller or by another way",
    "left out": "not here at all",
    "added": "only here, so that something can be seen or checked",
}


@dataclass(frozen=True)
class Likeness:
    """One part of an engine. ``checked`` are the files of the tests that show it; an exact row
    has at least one. ``section`` is the specification's that says more, or empty."""

    part: str
    kind: Kind
    real: str
    here: str
    why: str
    section: str
    checked: tuple[str, ...] = ()


_EXACT = (
    Likeness(
        "Copy kernels",
        "exact",
        "Triton kernels decide for every request and move conv and temporal states between blocks.",
        "Kernels of the same names, with the same order of arguments, decisions and bytes. Their "
        "source is our own; on a GPU a second set made for speed runs, with the same result.",
        "This is what the project is about.",
        "3",
        ("tests/kernels/test_golden.py", "tests/kernels/test_random.py"),
    ),
    Likeness(
        "Index arithmetic",
        "exact",
        "Running, source and target column, bias, aligned tokens, the accepted count that goes on.",
        "The same formulas, before the forward and after it, on both runners.",
        "Nearly every bug report in this field is one of these numbers off by one.",
        "3.2",
        ("tests/worker/test_golden_launches.py", "tests/worker/test_golden_engine.py"),
    ),
    Likeness(
        "Worker functions",
        "exact",
        "Functions of the V1 worker collect copies, stage counts on the GPU and launch the "
        "kernels.",
        "Functions of the same names, parameters and behaviour.",
        "What is learned here can be found again there.",
        "3.7",
        ("tests/worker/test_golden_engine.py",),
    ),
    Likeness(
        "Metadata builder",
        "exact",
        "One batch becomes the tensors that the layers’ kernels read.",
        "The same tensors, field by field: split, state indices, chunks, all mode, ReplaySSM, "
        "padding. 240 recorded batches.",
        "A forward reads nothing else, so a wrong entry must show as a wrong output.",
        "4",
        ("tests/attention/test_golden.py",),
    ),
    Likeness(
        "Block pool and request lists",
        "exact",
        "A pool of counted blocks, a free queue, a list of blocks for each request and group.",
        "The same ids in the same order, step by step, free queue included: 73 recordings of "
        "vLLM, 72 of version 0.30.0 and one of 0.32.0.",
        "Which block is taken next decides which bug can be seen.",
        "2",
        ("tests/scheduler/test_recordings.py", "tests/engine/test_recordings.py"),
    ),
    Likeness(
        "Two views of a row",
        "exact",
        "The scheduler’s list changes in place, the worker’s row only grows; they may differ.",
        "Both are kept, the kernels read the worker’s row, and the picture shows where the two "
        "differ.",
        "Retired ids look like a mistake until one has seen why they stay.",
        "2",
        ("tests/scheduler/test_recordings.py", "tests/worker/test_golden_engine.py"),
    ),
    Likeness(
        "Steps of the scheduler",
        "exact",
        "First come first served, token budget, chunked prefill cut to block boundaries, "
        "preemption of the last running request, admission gate.",
        "The same choices in the same order; what newer versions changed is a knob.",
        "Where a prefill is cut decides which states can be found again.",
        "2",
        ("tests/scheduler/test_recordings.py",),
    ),
    Likeness(
        "Sizes page",
        "exact",
        "Block size, page size and padding follow from a model’s config.",
        "The rules of vLLM 0.33.0, on the configs of 16 public models and the start-up logs that "
        "are public.",
        "These numbers decide how often a state is copied and how many requests fit.",
        "",
        ("tests/sizes/test_golden.py",),
    ),
)

_SIMPLIFIED = (
    Likeness(
        "Model",
        "simplified",
        "Dozens of layers, one above the other, with gate, norm and projections.",
        "One to eight small Mamba-2 style layers, each fed by the embedding, so that each can be "
        "checked alone: causal convolution over x, the selective recurrence, no gate, no norm, no "
        "output projection, a B of its own for every head.",
        "A state of 2 heads with 2 × 4 numbers fits on a screen and into a hand calculation.",
        "5.1",
    ),
    Likeness(
        "Weights",
        "simplified",
        "Trained, in the dtype of the checkpoint.",
        "Drawn from a seed: small integers over powers of two, and a decay of at most 0.8.",
        "Conv inputs are then exact in every dtype, and windows can be compared byte for byte.",
        "5.1",
    ),
    Likeness(
        "Next tokens",
        "simplified",
        "Sampled from the model’s output.",
        "A fixed function of request and position, or written in the scenario.",
        "No state depends on what a token means, only on which it is.",
        "2",
    ),
    Likeness(
        "Drafts and acceptance",
        "simplified",
        "A draft model proposes, verification compares probabilities.",
        "The scenario says how many drafts are kept. These are the true next tokens; the others "
        "are wrong ones and really go through the layers.",
        "So every pattern of acceptance can be asked for. What is tested is that rejected drafts "
        "leave no trace.",
        "2",
    ),
    Likeness(
        "Forward kernels",
        "simplified",
        "Tuned kernels; a prefill works on whole chunks with matrix products.",
        "Triton kernels of our own that read and write the same slots, and take in one token after "
        "another. Sums may be ordered differently, within a stated tolerance.",
        "One line of code for one token can be read beside the picture.",
        "5.2",
    ),
    Likeness(
        "Attention layers",
        "simplified",
        "A hybrid model computes attention, with a KV cache in the same pool.",
        "An attention group takes, registers and frees its blocks from the pool. Nothing is "
        "computed in it and its blocks have no bytes.",
        "What matters for Mamba state is which blocks are left.",
        "2",
    ),
    Likeness(
        "CUDA graphs",
        "simplified",
        "Decode batches are padded to a captured size and replayed as one graph.",
        "Padding, persistent buffers and the rules for capture are exact; the engine pads to "
        "powers of two, and captures and replays no graph.",
        "What goes wrong with graphs goes wrong in the padded rows.",
        "4.9",
    ),
    Likeness(
        "All mode",
        "simplified",
        "A row may have any number of drafts, and a block that drafts filled is registered.",
        "A row has no drafts or all of them; such a block is not registered unless the scenario "
        "asks for it. V1 only.",
        "Such a block doesn’t hold its boundary’s state. With the knob on, I1 shows the damage.",
        "5.2",
    ),
    Likeness(
        "ReplaySSM",
        "simplified",
        "A Triton back end and one in FlashInfer.",
        "The Triton way, with its ring and flushes, on V1. Of FlashInfer’s the builder makes the "
        "scratch tensors, where the library is installed.",
        "FlashInfer exists on NVIDIA machines only.",
        "4.8",
    ),
    Likeness(
        "Prefix identity",
        "simplified",
        "A chain of hashes over tokens and whatever else makes a prefix another one.",
        "A chain of hashes over tokens, from the request’s cache salt on.",
        "Images and adapters would add words, not ideas.",
        "2",
    ),
    Likeness(
        "Cache size and dtypes",
        "simplified",
        "Thousands of blocks of megabytes, found by measuring the free memory.",
        "As many blocks as the scenario says, a few hundred bytes each, in float32, bfloat16 or "
        "float16. Strides, page padding and 64-bit addresses are as in the large.",
        "The Sizes page has the large numbers.",
        "3.1",
    ),
    Likeness(
        "Time",
        "simplified",
        "Requests arrive when they like; the CPU prepares a step while the GPU still computes.",
        "One step after another, phase after phase; requests arrive at a step. What V2 keeps on "
        "the GPU is read back all the same, to be recorded.",
        "A step is the clock of everything shown here. Measured times stand on the Kernels page.",
        "2",
    ),
)

_LEFT_OUT = (
    Likeness(
        "More than one GPU",
        "left out",
        "Tensor, pipeline, data and context parallelism.",
        "One device. Only the Sizes page divides a model among ranks.",
        "Every rank keeps its part of a state in the same blocks.",
        "1",
    ),
    Likeness(
        "Other recurrent layers",
        "left out",
        "Mamba-1, gated delta net, KDA, short convolutions, linear attention.",
        "Only their sizes, and the metadata builder of Mamba-1. A layer can be reduced to its conv "
        "state or its temporal state.",
        "The copies know a conv state and a temporal state, whichever layer they belong to.",
        "5.1",
    ),
    Likeness(
        "Asynchronous scheduling",
        "left out",
        "The next step is scheduled before the last one’s tokens are known.",
        "Only the builder knows the setting, and refuses it where exact lengths are needed.",
        "It would put two steps into every picture.",
        "4.8",
    ),
    Likeness(
        "Other schedules and caches",
        "left out",
        "Priorities, adapters, images, grammars, blocks moved to the host or another machine.",
        "Nothing of it.",
        "None of them changes what a block holds.",
        "2",
    ),
)

_ADDED = (
    Likeness(
        "Readable head",
        "added",
        "Bytes of a state say nothing to a reader.",
        "Channel 0 of the window carries the token’s position, head 0 counts the tokens it has "
        "taken in. So h(n) and the window’s tokens are read from the cache, not from a ledger.",
        "A label that is worked out cannot be wrong where the bytes are.",
        "5.1",
        ("tests/mixer/test_layer.py",),
    ),
    Likeness(
        "Oracle and invariants",
        "added",
        "A wrong state shows, if at all, as a slightly worse answer.",
        "The recurrence from token 0, in plain numpy and without blocks, is held against every "
        "step.",
        "Most bugs in this field are silent.",
        "5.3",
        ("tests/mixer/test_oracle.py",),
    ),
    Likeness(
        "Guards",
        "added",
        "A table that names a wrong column or id makes a kernel read or write anywhere.",
        "A column outside the row, a null or a foreign id is never turned into an address: the "
        "copy is left out and the page says so.",
        "What-if edits and named mistakes must be able to go wrong in safety.",
        "3.1",
        ("tests/kernels/test_guards.py",),
    ),
    Likeness(
        "Named mistakes",
        "added",
        "Mistakes come unasked.",
        "A scenario can make one, at the very place where the decision falls.",
        "So the checks can be watched catching it.",
        "6",
        ("tests/engine/test_faults.py",),
    ),
)

LIKENESSES: tuple[Likeness, ...] = (*_EXACT, *_SIMPLIFIED, *_LEFT_OUT, *_ADDED)


@dataclass(frozen=True)
class Source:
    """Something the project is held against: where it comes from, and what it decides here."""

    what: str
    origin: str
    use: str


SOURCES: tuple[Source, ...] = (
    Source(
        "300 kernel launches (kernels.json)",
        "recorded from a reference implementation",
        "bytes that change, counts that go out",
    ),
    Source(
        "240 batches (builder.json)",
        "recorded from a reference implementation",
        "every field of the metadata",
    ),
    Source(
        "73 runs (engine.json)",
        "vLLM 0.30.0, one of them 0.32.0, on a CPU",
        "scheduler, lists, rows, registered prefixes, free queue, copies",
    ),
    Source(
        "16 models (models.json)",
        "public configs and start-up logs; rules of vLLM 0.33.0",
        "the numbers of the Sizes page",
    ),
    Source(
        "22 bug reports",
        "public issue trackers; each names its address on the Reports page",
        "what the replays show",
    ),
    Source(
        "Colours",
        "the palette of Okabe and Ito, for all kinds of colour vision",
        "roles of blocks; a letter or a pattern always says the same",
    ),
)
