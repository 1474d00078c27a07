"""What moves Mamba state between blocks around a forward pass (sections 3.6 and 3.7).

copy_specs   where one copy reads from
groups       which groups and tensors there are to copy
v1           the V1 worker: decisions on the CPU, copies in one launch
context      the GPU context: addresses of all states, launches of the fused kernels
staging      per-request values to arrays in batch order on the device
all_mode     the column the step before wrote to, in all mode with drafts
buffers      the memory these need between steps
launch       where an observer can watch a launch
protocols    what is read from the engine around it
"""

from mambaviz.worker.all_mode import postprocess_mamba_all, preprocess_mamba_all_specdec
from mambaviz.worker.buffers import MambaBuffers, MambaCopyBuffers, SkippedCopy
from mambaviz.worker.context import MambaSpecDecodeGPUContext
from mambaviz.worker.copy_specs import (
    CopyFunc,
    MambaCopySpec,
    get_conv_copy_spec,
    get_temporal_copy_spec,
)
from mambaviz.worker.cpu_gpu import CpuGpuBuffer, MakeBuffer
from mambaviz.worker.groups import get_mamba_groups
from mambaviz.worker.launch import Launch, LaunchObserver
from mambaviz.worker.protocols import (
    BlockTableView,
    ForwardContext,
    InputBatchView,
    LayerView,
    RequestView,
    SchedulerOutputView,
)
from mambaviz.worker.staging import (
    stage_mamba_state_idx_to_gpu,
    stage_postprocess_inputs_to_gpu,
    stage_postprocess_metadata_to_gpu,
)
from mambaviz.worker.v1 import (
    StateMove,
    cleanup_mamba_state_idx,
    collect_mamba_copy_meta,
    do_mamba_copy_block,
    postprocess_mamba_align_gpu,
    preprocess_mamba,
)

__all__ = [
    "BlockTableView",
    "CopyFunc",
    "CpuGpuBuffer",
    "ForwardContext",
    "InputBatchView",
    "Launch",
    "LaunchObserver",
    "LayerView",
    "MakeBuffer",
    "MambaBuffers",
    "MambaCopyBuffers",
    "MambaCopySpec",
    "MambaSpecDecodeGPUContext",
    "RequestView",
    "SchedulerOutputView",
    "SkippedCopy",
    "StateMove",
    "cleanup_mamba_state_idx",
    "collect_mamba_copy_meta",
    "do_mamba_copy_block",
    "get_conv_copy_spec",
    "get_mamba_groups",
    "get_temporal_copy_spec",
    "postprocess_mamba_align_gpu",
    "postprocess_mamba_all",
    "preprocess_mamba",
    "preprocess_mamba_all_specdec",
    "stage_mamba_state_idx_to_gpu",
    "stage_postprocess_inputs_to_gpu",
    "stage_postprocess_metadata_to_gpu",
]
