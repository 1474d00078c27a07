"""The worker side of a step: what the two runners do with a scheduler output.

base.py   books, metadata, forward: the same for both
v1.py     decisions on the CPU before the forward, one fused kernel after it
v2.py     everything resident on the device, request slots and a mapping into them
"""

from mambaviz.runner.base import ModelRunner
from mambaviz.runner.v1 import V1Runner
from mambaviz.runner.v2 import V2Runner

__all__ = ["ModelRunner", "V1Runner", "V2Runner"]
