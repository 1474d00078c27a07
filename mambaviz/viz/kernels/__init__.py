"""Pictures of one kernel launch: everything here takes a `LaunchRecord` and computes nothing.

LaunchRecord ──┬── words (headline, sentences)
  + Damage     ├── strips (bytes of blocks, orders of a shift) ── Scene ──┐
               ├── code (source, values by line)                          ├── view (HTML, JSON)
Speeds ────────┴── speeds (bars) ─────────────────────────────────────────┘
"""
