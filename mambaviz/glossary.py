"""The words of this project, each explained once: hovers, the About page and notebooks read this.

    TERMS["checkpoint"].meaning
    named("running block").name     # "running"

A term has one sentence, the section of the specification that says more, and the forms in which
running text uses it. Metadata fields are explained in `mambaviz.attention.fields`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """``forms`` are how a sentence names it, capital letters aside; the first one is preferred."""

    name: str
    meaning: str
    section: str
    forms: tuple[str, ...] = ()


def _term(name: str, section: str, meaning: str, *forms: str) -> Term:
    return Term(name, meaning, section, forms)


# What each invariant says; a broken one is shown, never hidden.
_INVARIANTS = (
    _term("I1", "1", "A block registered for reuse holds the state at its boundary."),
    _term("I2", "1", "What the forward reads is the state after the computed tokens."),
    _term("I3", "1", "Every accepted output equals the plain recurrence."),
    _term("I4", "1", "The null block is never written and never a live source."),
    _term("I5", "1", "A block has one owner, unless it is registered for reuse."),
    _term("I6", "1", "Every block is either free or held, never both or neither."),
    _term("I7", "1", "No column and no id out of range reaches an address."),
)

_PHASES = (
    _term(
        "schedule", "2", "Choose which requests run in this step, and with how many query tokens."
    ),
    _term("allocate", "2", "Give each scheduled request the blocks that its new tokens will need."),
    _term(
        "pre-copy",
        "3.7",
        "Before the forward, move a state whose running column advances into its new block.",
    ),
    _term(
        "metadata",
        "4",
        "Turn the batch into the tensors that tell the layers which blocks to read and write.",
    ),
    _term(
        "forward", "5.2", "The layers take in the query tokens and write the states they lead to."
    ),
    _term(
        "accept", "2", "Verification keeps the drafts that were guessed right and drops the rest."
    ),
    _term(
        "post-copy",
        "3.2",
        "After acceptance, save a state that reached a block boundary into that boundary’s block.",
    ),
    _term("commit", "2", "Count what was computed, finish requests, and check every invariant."),
)

_BLOCKS = (
    _term(
        "block",
        "1",
        "One fixed-size page of the cache, named by its id; it can hold one state of every layer "
        "of its group.",
    ),
    _term(
        "block table",
        "1",
        "A row for each request and a column for each block of tokens; a cell says which physical "
        "block stands there.",
    ),
    _term(
        "column",
        "1",
        "A place in a request’s row of the block table; with block size B, column c covers the "
        "tokens from c·B on.",
    ),
    _term(
        "block boundary",
        "1",
        "The end of a block of tokens; only a state exactly there can be found again by another "
        "request.",
        "block boundary",
        "block boundaries",
    ),
    _term(
        "cached",
        "1",
        "The block holds the state at its boundary and waits to be found again by its prefix.",
    ),
    _term(
        "running",
        "1",
        "The block with the state that a request is working on.",
        "running block",
        "running column",
    ),
    _term(
        "previous",
        "1",
        "The running block of before, between its migrate and its checkpoint or retirement.",
    ),
    _term(
        "speculative",
        "1",
        "A scratch block behind the running one: each draft’s state has one of its own, so that a "
        "rejected draft spoils nothing.",
        "speculative block",
        "speculative blocks",
        "scratch block",
        "scratch blocks",
        "scratch",
    ),
    _term(
        "null",
        "1",
        "Block 0: it never holds data and stands wherever there is nothing to keep.",
        "null block",
    ),
    _term(
        "retired",
        "1",
        "An id that stays in the worker’s row after the scheduler’s list has dropped it; with a "
        "green edge and a C, the pool still keeps the block cached.",
    ),
    _term("free", "1", "A block that nobody holds; its bytes mean nothing until it is written."),
    _term(
        "wrong",
        "1",
        "An invariant is broken here: the bytes or ids are not what the oracle says they must be.",
    ),
    _term(
        "pool",
        "2",
        "All blocks of the cache; each is free, owned by a request, or cached and unowned.",
        "pool",
    ),
)

_STATE = (
    _term(
        "state",
        "1",
        "What a Mamba layer remembers of all tokens so far: the conv state and the temporal "
        "state, together one slot of a block.",
    ),
    _term(
        "h(n)",
        "1",
        "The temporal state after n tokens; n is read back from the bytes of the block.",
    ),
    _term(
        "conv state",
        "1",
        "A sliding window over the last inputs of the layer, one row for each token.",
        "conv rows",
        "conv row",
        "conv state",
    ),
    _term(
        "temporal state",
        "1",
        "The recurrent (SSM) state h: it takes in one token after another and keeps its size.",
        "temporal state",
        "temporal states",
    ),
    _term(
        "window",
        "1",
        "The rows of a conv state that count: one fewer than the conv kernel is wide, from the "
        "offset accepted − 1 on (@1 says from row 1 on); the others are left-overs.",
        "window",
    ),
)

_COPIES = (
    _term(
        "migrate",
        "3.7",
        "The copy of a state into a new running block, before the forward.",
        "MIGRATE",
    ),
    _term(
        "checkpoint",
        "3.2",
        "The copy of a state into the block that ends at a boundary, after acceptance.",
        "CHECKPOINT",
    ),
    _term(
        "bias",
        "1",
        "How many tokens past the running state’s first token the wanted state lies: conv rows "
        "are read that much later, the temporal state that many columns further on.",
        "bias",
    ),
    _term(
        "in place",
        "3.2",
        "Source and target are the same block, so its conv rows slide inside it.",
        "in place",
    ),
    _term("boundary", "1", "In this step the accepted tokens end or pass a block of tokens."),
    _term(
        "hit",
        "2",
        "The blocks of a known prefix were found in the cache, so those tokens are not computed "
        "again.",
    ),
    _term(
        "preempted",
        "2",
        "The request gave its blocks back because the pool was full; it starts anew later.",
        "preempted",
    ),
)

_TOKENS = (
    _term("prompt", "1", "A token that the request came with."),
    _term("generated", "1", "A token that the model has produced and that is certain."),
    _term("reused", "2", "A prompt token whose state was found in the cache."),
    _term("ahead", "1", "A known token that no step has computed yet."),
    _term("pending", "1", "A draft that is in this step’s query and not yet verified."),
    _term("accepted", "1", "A draft that verification has kept."),
    _term(
        "rejected",
        "1",
        "A draft that verification has dropped; the layers took it in for nothing.",
        "rejected draft",
        "rejected drafts",
    ),
    _term(
        "draft",
        "1",
        "A guess at a coming token that the layers verify in the same step.",
        "drafts",
        "draft",
    ),
)

_NUMBERS = (
    _term("computed", "1", "Tokens of a request whose state is final before this step."),
    _term("scheduled", "1", "Query tokens of this step, drafts included."),
    _term(
        "accepted count",
        "1",
        "Tokens that verification kept, the one sampled last included, so at least 1.",
        "accepted count",
    ),
    _term(
        "running tokens",
        "3.2",
        "Tokens in the running block’s state: those that were certain before verification.",
    ),
    _term("new tokens", "3.2", "Tokens computed once the accepted ones count."),
    _term(
        "aligned tokens",
        "3.2",
        "The last block boundary that the accepted tokens reach; a state there is worth saving.",
    ),
    _term("source column", "3.1", "The column whose block the conv state is copied from."),
    _term("target column", "3.1", "The column whose block the state is copied to."),
    _term(
        "accepted out",
        "3.2",
        "The accepted count that the next step reads with; 1 once the state lies at row 0.",
    ),
    _term("tokens known", "1", "The prompt and every output so far; a resumed request has both."),
    _term(
        "counts as",
        "4.2",
        "Which kernels a row goes through: a short query as decode, a longer one as prefill.",
    ),
    _term("oracle", "5.3", "The plain recurrence from token 0, which knows nothing of blocks.",
          "oracle"),
)  # fmt: skip

GROUPS: dict[str, tuple[Term, ...]] = {
    "phases of a step": _PHASES,
    "blocks": _BLOCKS,
    "state": _STATE,
    "copies and events": _COPIES,
    "tokens": _TOKENS,
    "numbers": _NUMBERS,
    "invariants": _INVARIANTS,
}
TERMS: dict[str, Term] = {term.name: term for terms in GROUPS.values() for term in terms}


def named(words: str) -> Term | None:
    """The term that a sentence calls ``words``; None if no term has that form."""
    wanted = words.lower()
    return next(
        (t for t in TERMS.values() if wanted in (t.name.lower(), *map(str.lower, t.forms))), None
    )
