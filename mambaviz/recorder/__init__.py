"""Records what a real engine does with the blocks of its Mamba layers (docs/recording.md).

Lives inside the engine: standard library only, no dependency of its own, and never an
exception into its host. Installed beside vLLM it is found as a general plugin, and
``MAMBAVIZ_RECORD=run.jsonl`` switches it on:

    plugin ── seams ── scheduler_seams, v1_seams, v2_seams ── Session ── Writer ── run.jsonl
    (on?)     (what is there,       (what is read              (names,    (background)
               wrapped by name)      where)                     steps)
"""

from mambaviz.recorder.options import Options
from mambaviz.recorder.plugin import install, register, stop

__all__ = ["Options", "install", "register", "stop"]
