"""Pictures of a run: everything here takes a `Trace` and computes nothing about Mamba.

    Trace ── views (what there is to see, labels read from bytes)
               ├── drawing: lanes, state, changes ── Scene (named shapes) ── stage, SVG, Plotly
               ├── words (headline, sentence), tables (decision, metadata)
               └── charts (plotly figures)

No module of this package imports Streamlit.
"""
