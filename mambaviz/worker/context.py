"""The GPU context: what the copy kernels must know about the caches, and their launches.

A kernel of sections 3.2 and 3.4 finds a state by arithmetic: base address + block id *
block stride. The context works these numbers out once, from the tensors that the layers are
bound to, and keeps them on the device; after that a step uploads a few numbers per request.

On a GPU it launches the fast kernels (`kernels.fast_copy`), which do the same from the same
inputs; an observer is told of the launch of section 3 that they stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from kernels import KernelSet, kernel_set
from kernels.pieces import (
    COMPILE_OPTIONS,
    NOT_OF_FAST_KERNELS,
    STATE_TENSORS,
    Pieces,
    can_be_cut,
    num_programs,
)
from mambaviz.config import KVCacheConfig
from mambaviz.worker.copy_specs import CopyFunc
from mambaviz.worker.cpu_gpu import CpuGpuBuffer, MakeBuffer
from mambaviz.worker.geometry import StateGeometry, as_int64
from mambaviz.worker.groups import (
    get_mamba_groups,
    iter_state_tensors,
    num_mamba_layers,
)
from mambaviz.worker.launch import KernelInput, Launch, LaunchObserver, observed
from mambaviz.worker.protocols import ForwardContext

COPY_BLOCK_SIZE = 1024  # lanes of a copy program: what one turn of its loop moves
BYTES_PER_TILE = 64 * 1024  # larger states are shared out to several programs ...
MAX_TILES = 16  # ... but most programs of a launch find nothing to copy

FAST_KERNELS = {
    "postprocess_mamba_fused_kernel": "postprocess_mamba_pieces_kernel",
    "precopy_mamba_align_fused_kernel": "precopy_mamba_align_pieces_kernel",
}


@dataclass
class MambaSpecDecodeGPUContext:
    """Owns the tensors of section 3.1 and launches the kernels of 3.2 and 3.4.

    Life: `create` (memory only), `initialize_from_forward_context` (once the caches exist),
    then one ``run_…`` per step. Until initialised, and for ``num_reqs == 0``, a ``run_…``
    launches nothing.

    The ``…_buf`` buffers and ``num_accepted_tokens_out`` are int32 ``[max_num_reqs]`` in batch
    order; on V2 ``num_accepted_tokens_out`` is indexed by slot.
    """

    max_num_reqs: int
    block_size: int  # tokens
    num_groups: int
    conv_state_dim_first: bool

    # One entry per state: group by group, layer by layer, conv before temporal.
    state_base_addrs: torch.Tensor  # int64
    state_block_strides: torch.Tensor  # int64, bytes
    state_elem_sizes: torch.Tensor  # int32, bytes
    state_inner_sizes: torch.Tensor  # int64, elements
    state_conv_widths: torch.Tensor  # int32, token rows
    state_group_indices: torch.Tensor  # int32
    state_dim_row_count: torch.Tensor  # int32
    state_dim_row_stride: torch.Tensor  # int64, bytes
    block_table_ptrs: torch.Tensor  # int64 [num_groups]

    mamba_state_idx_buf: CpuGpuBuffer
    num_scheduled_tokens_buf: CpuGpuBuffer
    num_computed_tokens_buf: CpuGpuBuffer
    num_draft_tokens_buf: CpuGpuBuffer
    src_col_buf: CpuGpuBuffer
    token_bias_buf: CpuGpuBuffer
    num_accepted_tokens_out: torch.Tensor

    on_launch: LaunchObserver | None = None
    kernels: KernelSet | None = None  # None: the process's own
    block_table_stride_req: int = 0  # elements between the rows of every block table
    num_blocks: int = 0  # ids that lead inside every state tensor; 0: not known
    num_tiles: int = 1  # programs that share one copy
    fast: bool = False  # set before binding: the fast kernels are to run, where they can
    pieces: Pieces | None = None  # None: the readable kernels run
    is_initialized: bool = False
    # Only addresses are kept on the device; this keeps what they point to alive.
    bound_tensors: list[torch.Tensor] = field(default_factory=list, repr=False)

    @classmethod
    def create(
        cls,
        max_num_reqs: int,
        kv_cache_config: KVCacheConfig,
        num_state_types: int,
        device: torch.device | str,
        make_buffer: MakeBuffer,
        conv_state_dim_first: bool = False,
        on_launch: LaunchObserver | None = None,
        kernels: KernelSet | None = None,
    ) -> MambaSpecDecodeGPUContext:
        """Memory for ``num_state_types`` states of every Mamba layer. Section 3.7.

        ``conv_state_dim_first`` says that conv states are in the DS layout.
        ValueError when the configuration has no Mamba group, or groups that differ.
        """
        group_ids, spec = get_mamba_groups(kv_cache_config)
        num_states = num_mamba_layers(kv_cache_config, group_ids) * num_state_types

        def zeros(n: int, dtype: torch.dtype) -> torch.Tensor:
            return torch.zeros(n, dtype=dtype, device=device)

        return cls(
            max_num_reqs=max_num_reqs,
            block_size=spec.block_size,
            num_groups=len(group_ids),
            conv_state_dim_first=conv_state_dim_first,
            state_base_addrs=zeros(num_states, torch.int64),
            state_block_strides=zeros(num_states, torch.int64),
            state_elem_sizes=zeros(num_states, torch.int32),
            state_inner_sizes=zeros(num_states, torch.int64),
            state_conv_widths=zeros(num_states, torch.int32),
            state_group_indices=zeros(num_states, torch.int32),
            state_dim_row_count=zeros(num_states, torch.int32),
            state_dim_row_stride=zeros(num_states, torch.int64),
            block_table_ptrs=zeros(len(group_ids), torch.int64),
            mamba_state_idx_buf=make_buffer(max_num_reqs, dtype=torch.int32),
            num_scheduled_tokens_buf=make_buffer(max_num_reqs, dtype=torch.int32),
            num_computed_tokens_buf=make_buffer(max_num_reqs, dtype=torch.int32),
            num_draft_tokens_buf=make_buffer(max_num_reqs, dtype=torch.int32),
            src_col_buf=make_buffer(max_num_reqs, dtype=torch.int32),
            token_bias_buf=make_buffer(max_num_reqs, dtype=torch.int32),
            num_accepted_tokens_out=zeros(max_num_reqs, torch.int32),
            on_launch=on_launch,
            kernels=kernels,
            fast=torch.device(device).type == "cuda",
        )

    @property
    def num_states(self) -> int:
        return len(self.state_base_addrs)

    # ------------------------------------------------------------------ binding

    def initialize_from_forward_context(
        self,
        kv_cache_config: KVCacheConfig,
        forward_context: ForwardContext,
        mamba_state_copy_funcs: Sequence[CopyFunc],
        block_tables: Sequence[torch.Tensor],
    ) -> None:
        """Work out the addresses of the bound caches and tables; a second call does nothing.

        ``block_tables``: one int32 ``[num_reqs, max_cols]`` tensor per Mamba group, a view of
        the persistent table. Goes over the copy functions, not over all state tensors of a
        layer. ValueError, with the shapes, for a conv state that is not 3-D, a number of
        tables other than the number of groups, tables whose row strides differ, or states
        that do not fill what `create` made room for. Sections 3.1 and 3.7.
        """
        if self.is_initialized:
            return
        group_ids, _ = get_mamba_groups(kv_cache_config)
        states = list(
            iter_state_tensors(kv_cache_config, group_ids, forward_context, mamba_state_copy_funcs)
        )
        if len(states) != self.num_states:
            raise ValueError(
                f"the context was created for {self.num_states} states, but the layers and "
                f"their {len(mamba_state_copy_funcs)} copy functions give {len(states)}"
            )
        geometry = [StateGeometry.of(state, self.conv_state_dim_first) for state in states]
        self.block_table_stride_req = self._checked_row_stride(block_tables)
        _fill(self.block_table_ptrs, [as_int64(table.data_ptr()) for table in block_tables])
        _fill(self.state_base_addrs, [g.base_addr for g in geometry])
        _fill(self.state_block_strides, [g.block_stride for g in geometry])
        _fill(self.state_elem_sizes, [g.elem_size for g in geometry])
        _fill(self.state_inner_sizes, [g.inner_size for g in geometry])
        _fill(self.state_conv_widths, [g.conv_width for g in geometry])
        _fill(self.state_group_indices, [group_ids.index(state.group) for state in states])
        _fill(self.state_dim_row_count, [g.dim_row_count for g in geometry])
        _fill(self.state_dim_row_stride, [g.dim_row_stride for g in geometry])
        self.num_blocks = min(g.num_blocks for g in geometry)
        largest = max(state.tensor[0].nbytes for state in states)
        self.num_tiles = min(-(-largest // BYTES_PER_TILE), MAX_TILES)
        if self.fast and can_be_cut(geometry, self.conv_state_dim_first):
            device = self.state_base_addrs.device
            groups = [group_ids.index(state.group) for state in states]
            self.pieces = Pieces.of(geometry, groups, self.conv_state_dim_first, device)
        self.bound_tensors = [*(state.tensor for state in states), *block_tables]
        self.is_initialized = True

    def _checked_row_stride(self, block_tables: Sequence[torch.Tensor]) -> int:
        shapes = [tuple(table.shape) for table in block_tables]
        if len(block_tables) != self.num_groups:
            raise ValueError(
                f"{self.num_groups} Mamba groups need as many block tables, "
                f"got {len(block_tables)} with shapes {shapes}"
            )
        # An empty tensor has no address, and binding happens only once.
        if any(t.dim() != 2 or t.dtype != torch.int32 or t.numel() == 0 for t in block_tables):
            raise ValueError(
                "block tables must be int32 [num_reqs, max_cols] and not empty, got shapes "
                f"{shapes} of {[table.dtype for table in block_tables]}"
            )
        strides = [table.stride(0) for table in block_tables]
        if len(set(strides)) > 1:
            raise ValueError(
                f"all block tables must have one row stride, got strides {strides} "
                f"for shapes {shapes}"
            )
        return strides[0]

    # ----------------------------------------------------------------- launches

    def run_fused_postprocess(
        self,
        num_reqs: int,
        num_accepted_tokens_gpu: torch.Tensor,
        mamba_state_idx_gpu: torch.Tensor,
        num_scheduled_tokens_gpu: torch.Tensor,
        num_computed_tokens_gpu: torch.Tensor,
        num_draft_tokens_gpu: torch.Tensor,
    ) -> None:
        """V1, after acceptance: kernel 3.2 in batch order, counts as before the step.

        All tensors int ``[>= num_reqs]``. ``num_accepted_tokens_out[:num_reqs]`` gets the
        counts for the next step; the input array stays as it is, so that no program can see
        a count that a sibling has already reset.
        """
        if not self._can_launch(num_reqs):
            return
        self.num_accepted_tokens_out[:num_reqs].copy_(num_accepted_tokens_gpu[:num_reqs])
        self._launch(
            "postprocess_mamba_fused_kernel",
            num_reqs,
            {
                "num_accepted_tokens": num_accepted_tokens_gpu,
                "mamba_state_idx": mamba_state_idx_gpu,
                "num_scheduled_tokens": num_scheduled_tokens_gpu,
                "num_computed_tokens": num_computed_tokens_gpu,
                "num_draft_tokens": num_draft_tokens_gpu,
                **self._tables_and_states(),
                "num_accepted_tokens_out": self.num_accepted_tokens_out,
                "idx_mapping": None,
                "num_reqs": num_reqs,
                "block_size": self.block_size,
                **self._copy_options(has_idx_mapping=False),
                "PRECOMPUTED_NEW_COMPUTED": False,
            },
        )

    def run_fused_postprocess_align(
        self,
        num_reqs: int,
        num_accepted_tokens_gpu: torch.Tensor,
        state_idx_gpu: torch.Tensor,
        new_num_computed_tokens_gpu: torch.Tensor,
        idx_mapping: torch.Tensor | None,
    ) -> None:
        """V2, after acceptance: kernel 3.2 over request slots, counts already advanced.

        ``idx_mapping`` int32 ``[>= num_reqs]``, batch index to slot (None: they are equal); the
        other tensors are int ``[slots]``, ``slots <= max_num_reqs``. All slots are copied into
        ``num_accepted_tokens_out`` first: the kernel reads that snapshot and writes the resets
        into ``num_accepted_tokens_gpu``.
        """
        if not self._can_launch(num_reqs):
            return
        num_slots = len(num_accepted_tokens_gpu)
        if num_slots > self.max_num_reqs:
            raise ValueError(
                f"num_accepted_tokens_gpu has {num_slots} slots, but the context was created "
                f"for {self.max_num_reqs}"
            )
        snapshot = self.num_accepted_tokens_out[:num_slots].copy_(num_accepted_tokens_gpu)
        self._launch(
            "postprocess_mamba_fused_kernel",
            num_reqs,
            {
                "num_accepted_tokens": snapshot,
                "mamba_state_idx": state_idx_gpu,
                "num_scheduled_tokens": None,  # the given count is already advanced
                "num_computed_tokens": new_num_computed_tokens_gpu,
                "num_draft_tokens": None,
                **self._tables_and_states(),
                "num_accepted_tokens_out": num_accepted_tokens_gpu,
                "idx_mapping": idx_mapping,
                "num_reqs": num_reqs,
                "block_size": self.block_size,
                **self._copy_options(has_idx_mapping=idx_mapping is not None),
                "PRECOMPUTED_NEW_COMPUTED": True,
            },
        )

    def run_fused_precopy(
        self,
        num_reqs: int,
        state_idx_gpu: torch.Tensor,
        src_col_gpu: torch.Tensor,
        token_bias_gpu: torch.Tensor,
        idx_mapping: torch.Tensor | None,
    ) -> None:
        """Before a forward: kernel 3.4 moves the state into each new running block.

        With ``idx_mapping`` (V2) the int32 arrays are read at the request's slot, without
        (V1, None) at its batch index. ``src_col`` -1: nothing to move.
        """
        if not self._can_launch(num_reqs):
            return
        self._launch(
            "precopy_mamba_align_fused_kernel",
            num_reqs,
            {
                "mamba_state_idx": state_idx_gpu,
                "src_col": src_col_gpu,
                "token_bias": token_bias_gpu,
                **self._tables_and_states(),
                "idx_mapping": idx_mapping,
                "num_reqs": num_reqs,
                **self._copy_options(has_idx_mapping=idx_mapping is not None),
            },
        )

    def _can_launch(self, num_reqs: int) -> bool:
        if num_reqs > self.max_num_reqs:
            raise ValueError(
                f"num_reqs is {num_reqs}, but the context was created for {self.max_num_reqs}"
            )
        return self.is_initialized and num_reqs > 0

    def _tables_and_states(self) -> dict[str, KernelInput]:
        return {
            "block_table_ptrs": self.block_table_ptrs,
            "block_table_stride_req": self.block_table_stride_req,
            **{name: getattr(self, name) for name in STATE_TENSORS},
        }

    def _copy_options(self, has_idx_mapping: bool) -> dict[str, KernelInput]:
        return {
            "COPY_BLOCK_SIZE": COPY_BLOCK_SIZE,
            "CONV_STATE_DIM_FIRST": self.conv_state_dim_first,
            "HAS_IDX_MAPPING": has_idx_mapping,
            "num_blocks": self.num_blocks,
        }

    def launch_with(self, kernels: KernelSet) -> None:
        """Launch these readable kernels from now on; the fast ones know nothing of them."""
        self.kernels, self.fast, self.pieces = kernels, False, None

    def _launch(self, kernel: str, num_reqs: int, inputs: dict[str, KernelInput]) -> None:
        launch = Launch(kernel, (num_reqs, self.num_states, self.num_tiles), inputs)
        with observed(self.on_launch, launch):
            self.run(launch)

    def run(self, launch: Launch) -> None:
        """Run a launch of section 3.2 or 3.4 over the bound states: fast, once there are pieces.

        The fast kernels need the accepted counts' output apart from their input, as it always is
        here, and no other grid than one that fills the device.
        """
        kernels = self.kernels or kernel_set(None)
        if self.pieces is None:
            getattr(kernels, launch.kernel)[launch.grid](**launch.inputs)
            return
        fast = getattr(kernels, FAST_KERNELS[launch.kernel])
        inputs = {k: v for k, v in launch.inputs.items() if k not in NOT_OF_FAST_KERNELS}
        programs = num_programs(self.state_base_addrs.device, self.conv_state_dim_first)
        fast[(programs,)](**inputs, **self.pieces.arguments(launch.grid[0]), **COMPILE_OPTIONS)


def _fill(target: torch.Tensor, values: list[int]) -> None:
    target.copy_(torch.tensor(values, dtype=target.dtype))
