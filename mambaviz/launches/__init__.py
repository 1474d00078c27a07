"""One kernel launch on its own: what a person edits, what the real kernel made of it, what goes
wrong when it is built differently.

    inputs ── run ── record ── pictures (mambaviz.viz.kernels)
       └───── simulate ── damage ──┘

``inputs``, ``record``, ``mistakes`` and ``source`` cost no torch; ``run`` and
``simulate`` do, and so are imported only when a launch is wanted.
"""
