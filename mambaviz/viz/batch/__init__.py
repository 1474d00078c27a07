"""Pictures of one metadata build: everything here takes a `BatchRecord` and computes nothing.

BatchRecord ── split, chunks, blocks, graph, ring ── Scene ──┐
           └── words, fields (rows of text) ─────────────────┴── view (HTML for the page)
"""
