"""A report's two runs as pictures: the block in question around each phase, with the fault and
with the fix, what differs besides, and what the mistake does to the output.

    Replay ── exhibit (what there is to see) ── pictures ── payload (JSON) ── reports.js
"""
