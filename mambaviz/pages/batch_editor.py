"""The Metadata page's editor: the settings in the sidebar, the rows as a table.

The widgets hold a draft that started from a batch, the *seed*. A draft that can be a batch becomes
the view's batch; one that cannot gets a sentence, and what is on screen stays as it was. Widgets
keep their values by their keys, so a batch from elsewhere (a preset, a link, a file, a run) gets
new keys.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import streamlit as st

from mambaviz.batch import BUILDER_NAMES, LABELS, Batch, BatchError, BatchRow, build, fresh_blocks

if TYPE_CHECKING:
    import pandas as pd

ROW_HEIGHT = 27  # as high as a row of the picture beside the table

_SEED = "batch_seed"
_TAKE = "batch_take"  # counts the batches that the widgets were filled with
_MADE = "batch_made"  # the batch that the widgets last gave

HELP = {
    "builder": "Who builds: Mamba-2 cuts chunks, Mamba-1 only in all mode, the base class never.",
    "mode": "Which states are kept: none, at reached boundaries (align), at every boundary (all).",
    "block_size": "Tokens a block covers; in none mode one block covers the whole model length.",
    "num_spec": "Tokens proposed ahead at each decode step. A full decode query is one more.",
    "chunk_size": "Tokens of a full chunk of the Mamba-2 prefill scan.",
    "num_blocks": "Size of the pool, the null block included: ids go from 0 to one less.",
    "max_num_seqs": "Most requests in a batch; persistent memory is sized by it.",
    "max_model_len": "Most tokens a request may ever have.",
    "replayssm_buffer_len": "Entries of the ReplaySSM ring; 0 switches it off.",
    "accepted_given": "Whether the builder is told how many tokens the step before kept.",
    "full_graphs": "Whether decode batches replay a captured CUDA graph.",
    "max_capture_size": "Rows of the largest captured graph; empty for max requests.",
    "pad_to": "Rows of the graph that is replayed; rows beyond the batch are padding. 0 for none.",
}


# --------------------------------------------------------------------------------------
# Seed and draft
# --------------------------------------------------------------------------------------


def follow(shown: Batch) -> None:
    """Fill the widgets anew if the view shows a batch that did not come from them."""
    if _SEED not in st.session_state or shown != st.session_state.get(_MADE):
        fill(shown)


def fill(batch: Batch) -> None:
    st.session_state[_SEED] = st.session_state[_MADE] = batch
    st.session_state[_TAKE] = st.session_state.get(_TAKE, 0) + 1


def made(batch: Batch) -> None:
    """The view has taken over what the widgets gave."""
    st.session_state[_MADE] = batch


def _seed() -> Batch:
    return st.session_state[_SEED]


def _key(name: str) -> str:
    return f"batch {st.session_state[_TAKE]} {name}"


def judge(settings: dict[str, Any], rows: Sequence[dict[str, Any]]) -> Batch:
    """The batch that the widgets say. Raises `BatchError` with one sentence."""
    for name, value in settings.items():
        if value is None and name != "max_capture_size":
            raise BatchError(f"{LABELS.get(name, name)}: it is empty; fill it in")
    batch = _edited({**_unseen(settings), **settings, "rows": read_rows(rows)})
    return _seed() if batch.content_hash == _seed().content_hash else batch


def _unseen(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without a widget keep what the seed has, where they still mean something."""
    kept = _seed().model_dump(exclude={"rows", "name", "story"})
    if not settings["full_graphs"]:
        kept["pad_to"] = 0  # its widget is hidden: a padding nobody sees must not refuse a batch
    return kept


# --------------------------------------------------------------------------------------
# Settings
# --------------------------------------------------------------------------------------


def settings() -> dict[str, Any]:
    """The widgets of everything but the rows."""
    seed = _seed()
    found: dict[str, Any] = {}
    found["builder"] = st.selectbox(
        "Builder",
        list(BUILDER_NAMES),
        list(BUILDER_NAMES).index(seed.builder),
        key=_key("builder"),
        format_func=BUILDER_NAMES.__getitem__,
        help=HELP["builder"],
    )
    modes = ["none", "align", "all"]
    left, right = st.columns(2, gap="xsmall")
    with left:
        found["mode"] = st.selectbox(
            "cache mode", modes, modes.index(seed.mode), key=_key("mode"), help=HELP["mode"]
        )
    with right:
        found["block_size"] = _number("block_size")
    for pair in (
        ("num_spec", "chunk_size"),
        ("num_blocks", "max_num_seqs"),
        ("max_model_len", "replayssm_buffer_len"),
    ):
        for column, name in zip(st.columns(2, gap="xsmall"), pair, strict=True):
            with column:
                found[name] = _number(name)
    found["accepted_given"] = _switch("accepted_given", "accepted counts given")
    found["full_graphs"] = _switch("full_graphs", "full CUDA graphs")
    if found["full_graphs"]:
        for column, name in zip(
            st.columns(2, gap="xsmall"), ("pad_to", "max_capture_size"), strict=True
        ):
            with column:
                found[name] = _number(name)
    return found


def _number(name: str) -> int | None:
    """No bounds in the widget: what is out of range gets our sentence."""
    return st.number_input(
        LABELS[name],
        value=getattr(_seed(), name),
        step=1,
        key=_key(name),
        help=HELP[name],
        placeholder="no cap" if name == "max_capture_size" else "a number",
    )


def _switch(name: str, label: str) -> bool:
    return st.toggle(label, getattr(_seed(), name), key=_key(name), help=HELP[name])


# --------------------------------------------------------------------------------------
# Rows
# --------------------------------------------------------------------------------------


def rows_table(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The editable rows, as plain records. Columns that the mode does not read are left out."""
    columns = {
        "request": _text("request", 84, "The name of the row."),
        "computed": _integer("computed", 94, "Tokens final before this step."),
        "query": _integer("query", 74, "Tokens of this step, drafts included."),
        "prefilling": st.column_config.CheckboxColumn(
            "prefilling",
            width=94,
            help="Whether tokens known at admission are still to be computed.",
        ),
        "drafts": _integer("drafts", 76, "Drafts in the query; empty where it has none."),
        "accepted": _integer("accepted", 94, "Tokens that the step before kept, bonus included."),
        "blocks": _text("worker row", 130, "Block ids by column, such as 1, 2, 3; 0 is null."),
        "decode_base": _integer(
            "replay base", 104, "Tokens known when the request was last admitted."
        ),
        "prev_last_scheduled": _integer(
            "previous column", 130, "Column the step before wrote to; empty = unknown."
        ),
    }
    hidden = set()
    if not settings["replayssm_buffer_len"]:
        hidden.add("decode_base")
    if settings["mode"] != "all" or not settings["num_spec"]:
        hidden.add("prev_last_scheduled")
    if not settings["num_spec"]:
        hidden.add("drafts")
    if not settings["accepted_given"]:
        hidden.add("accepted")
    edited = st.data_editor(
        _frame(_seed().rows),
        key=_key("rows"),
        column_config=columns,
        column_order=[name for name in columns if name not in hidden],
        hide_index=True,
        row_height=ROW_HEIGHT,
        height="content",
        placeholder="–",
        width="stretch",
    )
    cells = edited.astype(object)
    return cells.where(cells.notna(), None).to_dict("records")


def _integer(label: str, width: int, hint: str) -> Any:
    return st.column_config.NumberColumn(label, width=width, step=1, help=hint)


def _text(label: str, width: int, hint: str) -> Any:
    return st.column_config.TextColumn(label, width=width, help=hint)


_TYPES = {
    "request": "object",
    "computed": "Int64",
    "query": "Int64",
    "prefilling": "bool",
    "drafts": "Int64",
    "accepted": "Int64",
    "blocks": "object",
    "decode_base": "Int64",
    "prev_last_scheduled": "Int64",
}


def _frame(rows: Sequence[BatchRow]) -> pd.DataFrame:
    import pandas as pd  # half a second that the first picture of the app need not wait for

    records = [{**row.model_dump(), "blocks": write_blocks(row.blocks)} for row in rows]
    return pd.DataFrame(records, columns=list(_TYPES)).astype(_TYPES)


def read_rows(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the table as a `Batch` takes them."""
    rows: list[dict[str, Any]] = []
    for record in records:
        where = f"row {len(rows)} ({record['request'] or 'no name'})"
        rows.append(
            {
                **record,
                "prefilling": bool(record["prefilling"]),
                "accepted": 1 if record["accepted"] is None else record["accepted"],
                "blocks": read_blocks(record["blocks"], where),
            }
        )
    return rows


def write_blocks(blocks: Sequence[int]) -> str:
    return ", ".join(str(block) for block in blocks)


def read_blocks(text: str | None, where: str) -> list[int]:
    """Inverse of `write_blocks`; also without commas. Raises `BatchError`."""
    words = re.split(r"[\s,;]+", (text or "").strip().strip("[]").strip())
    blocks = []
    for word in words if words != [""] else []:
        if not re.fullmatch(r"\d{1,6}", word):
            raise BatchError(
                f"{where}, worker row: {word[:20]!r} is no block id; write ids such as 1, 2, 3"
            )
        blocks.append(int(word))
    return blocks


def renumbered(settings: dict[str, Any], records: Sequence[dict[str, Any]]) -> Batch:
    """What the widgets say, with rows as long as they have to be and ids counted from 1."""
    plain = [{**record, "blocks": None} for record in records]
    for record in plain:
        if record["computed"] is None or record["query"] is None:
            raise BatchError("fill in computed and query of every row first")
    data = {**_unseen(settings), **settings, "rows": read_rows(plain)}
    return _edited(fresh_blocks(data))


def with_row(settings: dict[str, Any], records: Sequence[dict[str, Any]]) -> Batch:
    """What the widgets say, and a copy of the last row with a name and blocks of its own."""
    batch = judge(settings, records)
    rows, last = batch.model_dump()["rows"], batch.rows[-1]
    first = 1 + max(block for row in batch.rows for block in row.blocks)
    blocks = list(range(first, first + len(last.blocks)))
    names = {row.request for row in batch.rows}
    name = next(name for name in _names() if name not in names)
    rows.append({**rows[-1], "request": name, "blocks": blocks})
    room = max(batch.num_blocks, first + len(blocks))
    return _edited({**batch.model_dump(), "rows": rows, "num_blocks": room})


def without_row(settings: dict[str, Any], records: Sequence[dict[str, Any]]) -> Batch:
    """What the widgets say, without the last row."""
    data = {**_unseen(settings), **settings, "rows": read_rows(records)[:-1]}
    return _edited(data)


def _edited(data: dict[str, Any]) -> Batch:
    name = _seed().name.removesuffix(", edited")
    return build({**data, "name": f"{name}, edited", "story": ""})


def _names() -> Iterator[str]:
    yield from string.ascii_uppercase
    yield from (f"R{number}" for number in count())
