"""The Kernels page's editor: sizes in a popover, the rows of the batch as a table.

As on the Metadata page the widgets hold a draft that started from some inputs, the *seed*. Here
the draft is shown only when the reader launches it: until then the page says that it differs.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import streamlit as st

from mambaviz.launches.inputs import (
    LABELS,
    LaunchError,
    LaunchInputs,
    LaunchRow,
    build,
    fields_of,
)

if TYPE_CHECKING:
    import pandas as pd

ROW_HEIGHT = 27

_SEED = "launch_seed"
_TAKE = "launch_take"  # counts the inputs that the widgets were filled with

HELP = {
    "block_size": "Tokens a block covers.",
    "num_spec": "Tokens proposed at each decode step; a conv state keeps as many rows more.",
    "conv_kernel": "Taps of the convolution; its window is one row shorter.",
    "layers": "Layers of the model; each has a conv state and a temporal one.",
    "channels": "Channels of a layer: values of a conv row.",
    "d_state": "Values of a temporal state for each channel.",
    "num_blocks": "Size of the pool, the null block included: ids go from 0 to one less.",
    "columns": "Columns of the block table: a longer column is outside the row.",
    "padding": "Bytes behind a block's data that no copy may touch.",
    "bounded": "Whether the kernel is told the pool's size and so can refuse ids beyond it.",
    "mapped": "V2: requests live in slots, and the batch is a list of them.",
    "advanced": "V2: the counts given include this step already.",
}

COLUMNS = {
    "request": ("", 38, "The name of the row."),
    "slot": ("slot", 66, "Where the request's numbers stand; −1: no request; empty: the row."),
    "computed": ("computed", 92, "num_computed_tokens."),
    "scheduled": ("scheduled", 94, "Tokens of this step, drafts included."),
    "drafts": ("drafts", 72, "Drafts among them."),
    "accepted": ("accepted", 88, "Tokens that verification kept, bonus included."),
    "src_col": ("src_col", 82, "Column that holds the state; −1: none yet."),
    "bias": ("bias", 66, "How many tokens past that state the wanted one lies."),
    "state_idx": ("state_idx", 88, "Running column."),
    "blocks": ("block ids", 118, "Block ids by column, such as 1, 2, 3; 0 is null."),
}


# --------------------------------------------------------------------------------------
# Seed and draft
# --------------------------------------------------------------------------------------


def follow(shown: LaunchInputs) -> None:
    """Fill the widgets anew if the page shows other inputs than they were filled with."""
    if st.session_state.get(_SEED) != shown:
        fill(shown)


def fill(inputs: LaunchInputs) -> None:
    st.session_state[_SEED] = inputs
    st.session_state[_TAKE] = st.session_state.get(_TAKE, 0) + 1


def _seed() -> LaunchInputs:
    return st.session_state[_SEED]


def _key(name: str) -> str:
    return f"launch {st.session_state[_TAKE]} {name}"


def judge(settings: dict[str, Any], rows: Sequence[dict[str, Any]]) -> LaunchInputs:
    """The inputs that the widgets say; the seed itself where nothing was edited.

    Raises `LaunchError` with one sentence.
    """
    for name, value in settings.items():
        if value is None:
            raise LaunchError(f"{LABELS.get(name, name)}: it is empty; fill it in")
    draft = _edited({**settings, "rows": read_rows(rows)})
    return _seed() if draft.content_hash == _seed().content_hash else draft


def _edited(data: dict[str, Any]) -> LaunchInputs:
    kept = _seed().model_dump(exclude={"rows", "name", "story"})
    name = _seed().name.removesuffix(", edited")
    return build({**kept, **data, "name": f"{name}, edited"})


def difference(before: LaunchInputs, after: LaunchInputs) -> str:
    """The first thing in which two inputs differ, in a few words; empty where nothing does."""
    for old, new in zip(before.rows, after.rows, strict=False):
        for name in LaunchRow.model_fields:
            was, now = getattr(old, name), getattr(new, name)
            if was != now:
                return _changed(new.request, name, was, now)
    if len(before.rows) != len(after.rows):
        return f"{len(before.rows)} rows before, {len(after.rows)} now"
    for name in LaunchInputs.model_fields:
        was, now = getattr(before, name), getattr(after, name)
        if was != now and name not in ("name", "story", "rows"):
            return f"{LABELS.get(name, name)} was {was}, now {now}"
    return ""


def _changed(request: str, name: str, was: Any, now: Any) -> str:
    if name == "blocks":
        for column, (one, other) in enumerate(zip(was, now, strict=False)):
            if one != other:
                return f"column {column} of {request} was {one}, now {other}"
        return f"the row of {request} had {len(was)} ids, now {len(now)}"
    shown = ["empty" if value is None else value for value in (was, now)]
    return f"{LABELS.get(name, name)} of {request} was {shown[0]}, now {shown[1]}"


# --------------------------------------------------------------------------------------
# Settings
# --------------------------------------------------------------------------------------


def settings() -> dict[str, Any]:
    """The widgets of the sizes and of how the kernel is asked."""
    seed = _seed()
    found: dict[str, Any] = {}
    left, right = st.columns(2, gap="xsmall")
    with left:
        layouts = ["SD"] if seed.kernel == "memcpy" else ["SD", "DS"]
        found["layout"] = st.selectbox(
            "layout", layouts, layouts.index(seed.layout), key=_key("layout")
        )
    with right:
        dtypes = ["float32", "float16", "bfloat16"]
        found["dtype"] = st.selectbox("dtype", dtypes, dtypes.index(seed.dtype), key=_key("dtype"))
    for names in (
        ("block_size", "num_spec", "conv_kernel"),
        ("layers", "channels", "d_state"),
        ("num_blocks", "columns", "padding"),
    ):
        for column, name in zip(st.columns(3, gap="xsmall"), names, strict=True):
            with column:
                found[name] = _number(name)
    if seed.kernel in ("postprocess", "precopy"):
        found["bounded"] = _switch("bounded", "pool size given")
        found["mapped"] = _switch("mapped", "requests in slots")
    if seed.kernel == "postprocess":
        found["advanced"] = _switch("advanced", "counts advanced")
    return found


def _number(name: str) -> int | None:
    """No bounds in the widget: what is out of range gets our sentence."""
    return st.number_input(
        LABELS.get(name, name),
        value=getattr(_seed(), name),
        step=1,
        key=_key(name),
        help=HELP[name],
    )


def _switch(name: str, label: str) -> bool:
    return st.toggle(label, getattr(_seed(), name), key=_key(name), help=HELP[name])


# --------------------------------------------------------------------------------------
# Rows
# --------------------------------------------------------------------------------------


def rows_table(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The editable rows, as plain records. Columns that the kernel does not read are left out."""
    seed = _seed()
    asked = seed.model_copy(
        update={name: settings[name] for name in ("mapped", "advanced") if name in settings}
    )
    shown = ("request", *fields_of(asked))
    config = {
        name: _column(name, label, width, hint)
        for name, (label, width, hint) in COLUMNS.items()
        if name in shown
    }
    edited = st.data_editor(
        _frame(seed.rows),
        key=_key("rows"),
        column_config=config,
        column_order=list(shown),
        hide_index=True,
        row_height=ROW_HEIGHT,
        height="content",
        placeholder="–",
        width="stretch",
    )
    cells = edited.astype(object)
    return cells.where(cells.notna(), None).to_dict("records")


def _column(name: str, label: str, width: int, hint: str) -> Any:
    if name in ("request", "blocks"):
        return st.column_config.TextColumn(label, width=width, help=hint)
    return st.column_config.NumberColumn(label, width=width, step=1, help=hint)


def _frame(rows: Sequence[LaunchRow]) -> pd.DataFrame:
    import pandas as pd  # half a second that the first picture of the app need not wait for

    records = [{**row.model_dump(), "blocks": write_blocks(row.blocks)} for row in rows]
    types = {name: "object" if name in ("request", "blocks") else "Int64" for name in COLUMNS}
    return pd.DataFrame(records, columns=list(types)).astype(types)


def read_rows(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the table as `LaunchInputs` takes them."""
    rows = []
    for index, record in enumerate(records):
        where = f"row {index} ({record['request'] or 'no name'})"
        rows.append({**record, "blocks": read_blocks(record["blocks"], where)})
    return rows


def write_blocks(blocks: Sequence[int]) -> str:
    return ", ".join(str(block) for block in blocks)


def read_blocks(text: str | None, where: str) -> list[int]:
    """Inverse of `write_blocks`; also without commas. Raises `LaunchError`."""
    plain = (text or "").replace("−", "-").strip().strip("[]").strip()
    blocks = []
    for word in re.split(r"[\s,;]+", plain) if plain else []:
        if not re.fullmatch(r"-?\d{1,6}", word):
            raise LaunchError(
                f"{where}, block-table row: {word[:20]!r} is no block id; write ids such as 1, 2, 3"
            )
        blocks.append(int(word))
    return blocks


def with_row(settings: dict[str, Any], records: Sequence[dict[str, Any]]) -> LaunchInputs:
    """What the widgets say, and a copy of the last row with a name and blocks of its own."""
    inputs = judge(settings, records)
    rows, last = inputs.model_dump()["rows"], inputs.rows[-1]
    first = 1 + max([0, *(block for row in inputs.rows for block in row.blocks)])
    names = {row.request for row in inputs.rows}
    slots = [inputs.slot_of(index) for index in range(len(rows))]
    rows.append(
        {
            **rows[-1],
            "request": next(name for name in _names() if name not in names),
            "slot": None if last.slot is None else max([-1, *slots]) + 1,
            "blocks": list(range(first, first + len(last.blocks))),
        }
    )
    room = max(inputs.num_blocks, first + len(last.blocks))
    return _edited({**settings, "rows": rows, "num_blocks": room})


def without_row(settings: dict[str, Any], records: Sequence[dict[str, Any]]) -> LaunchInputs:
    """What the widgets say, without the last row."""
    return _edited({**settings, "rows": read_rows(records)[:-1]})


def _names() -> Iterator[str]:
    yield from string.ascii_uppercase
    yield from (f"R{number}" for number in count())
