"""The explorer: every scenario of a small scope, and the shortest that breaks something.

scope       ranges of settings, requests and events; their combinations
run         one run over symbols: the real scheduler, manager and worker, and the invariants
worker      the real worker, each situation run once and remembered (dataflow, recording)
symbols     block contents as symbols: which tokens a row or a state has absorbed
queries     named questions about a step ("what happens when")
search      depth first through the ways verifications can go
replay      the same run with real bytes: do both say the same?
pool        processes or a cluster to do the tasks; record: a file to go on from
explorer    an exploration from the first task to the report; command: the command line
"""
