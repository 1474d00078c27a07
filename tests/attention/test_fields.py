"""The table of field explanations covers the metadata, and says the truth about it."""

from __future__ import annotations

import dataclasses

import pytest

from mambaviz.attention import (
    BaseMambaAttentionMetadata,
    Mamba2AttentionMetadata,
    Mamba2AttentionMetadataBuilder,
)
from mambaviz.attention.fields import FIELDS, FieldInfo, ValueKind
from tests.attention.batches import Setup, batch, int32


@pytest.mark.parametrize("cls", [BaseMambaAttentionMetadata, Mamba2AttentionMetadata])
def test_every_field_is_explained(cls: type) -> None:
    assert {field.name for field in dataclasses.fields(cls)} - set(FIELDS) == set()


def test_no_field_is_explained_that_does_not_exist() -> None:
    assert set(FIELDS) == {field.name for field in dataclasses.fields(Mamba2AttentionMetadata)}


@pytest.mark.parametrize("name", FIELDS)
def test_an_explanation_is_complete_and_one_line(name: str) -> None:
    info = FIELDS[name]
    for field in dataclasses.fields(FieldInfo):
        text = str(getattr(info, field.name))
        assert text.strip() == text != ""
        assert "\n" not in text
    assert info.meaning.endswith(".")
    assert info.section in {f"4.{part}" for part in range(1, 9)}


def test_every_kind_of_value_is_used() -> None:
    assert {info.kind for info in FIELDS.values()} == set(ValueKind)


def test_block_ids_really_are_ids_of_the_table() -> None:
    """What a page links to blocks must hold nothing but ids that stand in the table."""
    common = batch([1, 5], [6, 5], [False, True])
    ids = set(common.block_table_tensor.flatten().tolist())
    for mode in ("none", "align", "all"):
        metadata = Setup(mode=mode).builder().build(0, common)
        for name, info in FIELDS.items():
            if info.kind is ValueKind.BLOCK_ID:
                assert set(getattr(metadata, name).flatten().tolist()) <= ids


def test_columns_really_are_columns_of_the_table() -> None:
    common = batch([3, 5], [60, 25], [False, True])
    metadata = (
        Setup(mode="all", num_spec=2)
        .builder()
        .build(
            0,
            common,
            num_accepted_tokens=int32([1, 1]),
            prev_last_scheduled_idx=int32([15, -1]),
        )
    )
    columns = [name for name, info in FIELDS.items() if info.kind is ValueKind.COLUMN]
    assert len(columns) == 4
    for name in columns:
        assert getattr(metadata, name).min() >= 0
        assert getattr(metadata, name).max() < common.block_table_tensor.shape[1]


def test_always_present_fields_are() -> None:
    builder = Setup(chunk_size=4).builder(cls=Mamba2AttentionMetadataBuilder)
    for common in (batch([1], [6]), batch([5], [5], [True])):
        metadata = builder.build(0, common)
        for name, info in FIELDS.items():
            if info.present.startswith("always"):
                assert getattr(metadata, name) is not None
