"""Every limit on what is taken in, each number once; docs/limits.md says what they are for.

Two kinds: how long a field, a text or a link may be (here, used where it is read), and how much
work a whole run may be (`Bounds`, held against a scenario by `mambaviz.workload`).
"""

from __future__ import annotations

from dataclasses import dataclass

MIB, GIB = 2**20, 2**30

# --------------------------------------------------------------------------------------
# A scenario, field by field: sizes that a person can still look at
# --------------------------------------------------------------------------------------

MOST_REQUESTS = 64
MOST_TOKENS = 65_536  # of a prompt, of a request's outputs, of a model length
MOST_STEPS = 10_000  # the last step that an event or an edit can name
MOST_BLOCKS = 4_096
MOST_LAYERS = 8
MOST_DRAFTS = 16  # of a step
MOST_PADDING = 4_096  # bytes of a page
MOST_EVENTS = 1_000
MOST_EDITS = 100
LONGEST_NAME = 200  # characters
LONGEST_STORY = 2_000
LONGEST_REQUEST = 40  # characters of a request's name

# A batch of the Metadata page and a launch of the Kernels page fit on a screen.
MOST_ROWS = 16
MOST_COLUMNS = 16  # of a launch's block table
MOST_ROW_TOKENS = 4_096

# --------------------------------------------------------------------------------------
# Texts, files, links
# --------------------------------------------------------------------------------------

MOST_UPLOAD_MB = 1  # of a file that is no recording
MOST_RECORDING_MB = 20  # .streamlit/config.toml says it to the server; the command line reads any
MOST_RECORDED_STEPS = 2_000  # that are drawn
LONGEST_RECORDED_LINE = MIB  # bytes
MOST_RECORDED_TOKENS = 2**24  # of a request
MOST_STEP_TOKENS = 2**20  # that a recorded step schedules
MOST_PADDED_ROWS = 2**16  # of a recorded batch
MOST_RECORDED_BLOCKS = 2**22  # of a pool
LONGEST_TEXT = 1_000_000  # characters of a JSON text, pasted or in a file
LONGEST_LINK = 8_000  # characters behind the address; many proxies take no more
LONGEST_UNPACKED = 200_000  # characters of JSON that a packed text of a link may unpack to
LONGEST_SENTENCE = 600  # characters of a refusal

# --------------------------------------------------------------------------------------
# A run as a whole
# --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bounds:
    """The most that one run may be. `mambaviz.workload.Workload` has the same names.

    ``state_bytes``: the caches. ``steps``: of the engine. ``rows``: requests of all steps, times
    layers. ``recurrences``: tokens, times layers, times heads. ``truth_bytes``: what the oracle
    remembers, every state after every token. ``watched_bytes``: cache bytes looked at, over all
    steps. ``table_entries``: block ids written down, over all steps.
    """

    state_bytes: int
    steps: int
    rows: int
    recurrences: int
    truth_bytes: int
    watched_bytes: int
    table_entries: int


# What a page takes: minutes at most, and some hundred megabytes, on a small machine.
USUAL = Bounds(
    state_bytes=32 * MIB,
    steps=2_000,
    rows=40_000,
    recurrences=200_000,
    truth_bytes=256 * MIB,
    watched_bytes=4 * GIB,
    table_entries=2_000_000,
)
# What the command line takes with --large: hours, and some gigabytes.
LARGE = Bounds(
    state_bytes=GIB,
    steps=MOST_STEPS,
    rows=1_000_000,
    recurrences=10_000_000,
    truth_bytes=8 * GIB,
    watched_bytes=256 * GIB,
    table_entries=40_000_000,
)
