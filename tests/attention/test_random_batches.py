"""Random batches of every configuration against the slow re-derivation of section 4.

Batch number n is the same in every run. MAMBAVIZ_BATCHES says how many: 2,000 by default, more
for a long run.
"""

from __future__ import annotations

import os
import random
from dataclasses import asdict
from typing import Any

import pytest
import torch

from mambaviz.attention import (
    BaseMambaAttentionMetadataBuilder,
    CommonAttentionMetadata,
    Mamba1AttentionMetadataBuilder,
    Mamba2AttentionMetadataBuilder,
)
from tests.attention.batches import Setup, batch, int32
from tests.attention.slow_rederivation import Config, Derived, Given, Row, derive

BATCHES = int(os.environ.get("MAMBAVIZ_BATCHES", "2000"))
PER_BUILDER = 4  # one builder makes several batches, so that left-overs in its buffers show
PARTS = 10  # tests the batches are spread over
PADDED_LISTS = {"mlist": "batch_ptr", "offsetlist": "token_chunk_offset_ptr"}


def random_setup(rng: random.Random) -> Setup:
    mode = rng.choice(["none", "align", "all"])
    replay = mode != "all" and rng.random() < 0.3
    return Setup(
        mode=mode,
        block_size=rng.choice([2, 4, 8, 16]),
        num_spec=0 if replay else rng.choice([0, 0, 1, 2, 3]),
        replayssm=replay,
        ring_len=rng.choice([1, 2, 3, 4, 8]),
        ngroups=rng.choice([1, 2]),
        max_seqs=8,
        full_graphs=rng.random() < 0.5,
        capture_cap=rng.choice([None, None, 2, 4, 16]),
        chunk_size=rng.choice([1, 2, 3, 4, 8]),
        parallel_drafting=rng.random() < 0.2,
    )


def random_row(rng: random.Random, setup: Setup, ids: Any, kind: str) -> Row:
    """A row of one of the kinds that section 4.2 tells apart."""
    computed, query, prefilling, drafts = 0, 1, False, -1
    if kind == "decode":
        drafts = rng.choice([-1, *range(setup.num_spec + 1)])
        computed, query = rng.randint(1, 48), 1 + max(drafts, 0)
    elif kind == "tail":
        drafts = setup.num_spec
        computed, query, prefilling = rng.randint(1, 48), 1 + drafts, True
    elif kind == "extend":
        computed, prefilling = rng.randint(1, 48), True
    elif kind == "first token":
        prefilling = True
    elif kind == "prefill":
        computed = rng.choice([0, rng.randint(0, 40)])
        query, prefilling = rng.randint(1, 12), True
    elif kind == "empty prefill":
        computed, query, prefilling = rng.randint(0, 20), 0, True
    elif kind == "padding":
        query = 0
    blocks = [0 if kind == "padding" else next(ids) for _ in range(setup.table_columns)]
    return Row(
        computed=computed,
        query=query,
        prefilling=prefilling,
        blocks=blocks,
        accepted=rng.randint(1, 1 + setup.num_spec),
        prev_column=rng.choice([-1, rng.randint(0, 5)]),
        drafts=drafts,
        base=max(0, computed - rng.randint(-2, 12)),
    )


def random_batch(rng: random.Random, setup: Setup, takes_keywords: bool) -> Given:
    ids = iter(rng.sample(range(1, 4000), 1000))
    decodes = ["decode"] * rng.randint(0, 5)
    extends = rng.choices(["extend", "tail"], k=rng.randint(0, 2)) if rng.random() < 0.4 else []
    prefills = (
        rng.choices(["prefill", "prefill", "first token", "empty prefill"], k=rng.randint(1, 4))
        if rng.random() < 0.5
        else []
    )
    kinds = decodes + extends + prefills
    if not prefills and rng.random() < 0.5:
        kinds += ["padding"] * rng.randint(0, 3)
    if rng.random() < 0.1:
        rng.shuffle(kinds)  # not the promised order: what stands behind a prefill is one too
    kinds = kinds[: setup.max_seqs] or ["decode"]
    return Given(
        rows=[random_row(rng, setup, ids, kind) for kind in kinds],
        with_accepted=takes_keywords and rng.random() < 0.8,
        with_prev_column=takes_keywords and rng.random() < 0.8,
        with_drafts=takes_keywords and rng.random() < 0.7,
    )


def common_of(setup: Setup, given: Given, device: str) -> CommonAttentionMetadata:
    rows = given.rows
    return batch(
        [row.query for row in rows],
        [row.computed + row.query for row in rows],
        [row.prefilling for row in rows],
        blocks=int32([row.blocks for row in rows], device),
        decode_base=[row.base for row in rows] if setup.replayssm else None,
        device=device,
    )


def keywords_of(given: Given, device: str) -> dict[str, torch.Tensor]:
    rows, keywords = given.rows, {}
    if given.with_accepted:
        keywords["num_accepted_tokens"] = int32([row.accepted for row in rows], device)
    if given.with_prev_column:
        keywords["prev_last_scheduled_idx"] = int32([row.prev_column for row in rows], device)
    if given.with_drafts:
        keywords["num_decode_draft_tokens_cpu"] = int32([row.drafts for row in rows])
    return keywords


def tensors_of(common: CommonAttentionMetadata, keywords: dict[str, torch.Tensor]) -> list[Any]:
    """All input tensors, copied."""
    values = [*vars(common).values(), *keywords.values()]
    return [value.tolist() for value in values if isinstance(value, torch.Tensor)]


def derived_from(metadata: Any) -> Derived:
    """The metadata in the plain form of the re-derivation."""
    out = Derived()
    for name in set(vars(out)) - {"nums", *PADDED_LISTS, "prep_initial_states"}:
        value = getattr(metadata, name)
        if isinstance(value, torch.Tensor):
            value = value.tolist()
        setattr(out, name, value)
    out.prep_initial_states = getattr(metadata, "prep_initial_states", False)
    if metadata.nums_dict is not None:
        programs = metadata.nums_dict[8]
        out.nums = programs["nums"].tolist()
        out.mlist = programs["mlist"].tolist()
        out.offsetlist = programs["offsetlist"].tolist()
        assert programs["tot"] == programs["mlist_len"] == len(out.mlist)
        for plain, pointer in PADDED_LISTS.items():
            entries = getattr(metadata, pointer).tolist()
            used = getattr(out, plain)
            assert entries == used + [-1] * (2048 - len(used))
    return out


BUILDERS = (
    BaseMambaAttentionMetadataBuilder,
    Mamba1AttentionMetadataBuilder,
    Mamba2AttentionMetadataBuilder,
)


def chunk_of(setup: Setup, cls: type) -> int | None:
    if cls is Mamba2AttentionMetadataBuilder:
        return setup.chunk_size
    if cls is Mamba1AttentionMetadataBuilder and setup.mode == "all":
        return setup.block_size
    return None


def check_builder(number: int, device: str) -> None:
    """One random builder over a few random batches."""
    rng = random.Random(number)
    setup, cls = random_setup(rng), rng.choice(BUILDERS)
    builder = setup.builder(device, cls)
    config = Config(
        mode=setup.mode,
        block_size=setup.block_size,
        num_spec=setup.num_spec,
        parallel_drafting=setup.parallel_drafting,
        ring_len=setup.ring_len if setup.replayssm else None,
        chunk=chunk_of(setup, cls),
    )
    for _ in range(PER_BUILDER):
        given = random_batch(rng, setup, cls is not Mamba1AttentionMetadataBuilder)
        common, keywords = common_of(setup, given, device), keywords_of(given, device)
        before = tensors_of(common, keywords)
        metadata = builder.build(0, common, **keywords)
        expected = derive(config, given)
        if cls is not Mamba2AttentionMetadataBuilder:
            expected.prep_initial_states = False
        assert asdict(derived_from(metadata)) == asdict(expected), f"builder {number}, {setup}"
        assert tensors_of(common, keywords) == before, f"builder {number} changed its input"
        check_scratch(setup, metadata)
        check_explanation(builder, common, keywords, metadata.num_decodes)


def check_scratch(setup: Setup, metadata: Any) -> None:
    if setup.replayssm and metadata.num_decodes:
        expected = (metadata.num_decodes, setup.ngroups, setup.ring_len)
        assert metadata.bc_pre_scratch.shape == expected
    else:
        assert metadata.bc_pre_scratch is None


def check_explanation(
    builder: Any, common: CommonAttentionMetadata, keywords: dict[str, Any], decodes: int
) -> None:
    given = {n: v for n, v in keywords.items() if n != "prev_last_scheduled_idx"}
    classes = [row.row_class for row in builder.explain_split(common, **given)]
    assert classes == ["decode"] * decodes + ["prefill"] * (common.num_reqs - decodes)


@pytest.mark.parametrize("part", range(PARTS))
def test_random_batches(part: int, device: str) -> None:
    for number in range(part, -(-BATCHES // PER_BUILDER), PARTS):
        check_builder(number, device)
