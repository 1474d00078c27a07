"""From a model's config to blocks and bytes: what one page holds, and how every size came about.

Pure arithmetic, no torch: a `Model` (read from a config.json or from the list in models.json) and
`Settings` make a `Report`. The rules are those of the engine whose terms the project uses
(vLLM 0.33.0), tried on its public start-up logs; each number of a report tells its own formula.

    families.py    state shapes, one function a family
    reader.py      config.json files as they are published, under all their names
    alignment.py   page, block and padding
    memory.py      blocks a request holds in each cache mode
    crossings.py   how often a boundary is crossed, and what is copied then
    copy_rates.py  how fast bytes were copied where it was measured
    report.py      all of it for one model, with formulas, rules and sources
    small.py       the same ratios as a scenario to watch
"""
