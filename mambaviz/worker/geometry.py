"""How the bytes of a state tensor lie: one row of the metadata table in section 3.1."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mambaviz.worker.groups import StateTensor


@dataclass(frozen=True)
class StateGeometry:
    """One state tensor as the copy kernels see it.

    A 1-D tensor counts as a single block (section 3.1), so only id 0 leads into it, which no
    copy may touch.
    """

    base_addr: int
    block_stride: int  # bytes; more than the data where pages are padded
    elem_size: int  # bytes
    inner_size: int  # elements: conv SD a token row, conv DS 1, temporal the whole block
    conv_width: int  # token rows; 0 marks a temporal state
    num_blocks: int  # ids that lead inside the tensor
    dim_row_count: int = 0  # conv DS: channels
    dim_row_stride: int = 0  # conv DS: bytes between channel rows

    @classmethod
    def of(cls, state: StateTensor, conv_state_dim_first: bool) -> StateGeometry:
        """ValueError, with the shape, for a tensor that the copy kernels cannot walk over."""
        if state.kind == "temporal":
            return cls._of_temporal(state)
        if state.tensor.dim() != 3:
            raise ValueError(
                f"{state.name} must be 3-D, [num_blocks, rows, columns], "
                f"got shape {tuple(state.tensor.shape)}"
            )
        _require_contiguous(state, state.tensor[0, 0], "each row")
        return (
            cls._of_conv_ds(state.tensor) if conv_state_dim_first else cls._of_conv_sd(state.tensor)
        )

    @classmethod
    def _of_temporal(cls, state: StateTensor) -> StateGeometry:
        tensor = state.tensor
        if tensor.dim() == 1:
            block_stride, inner_size, num_blocks = tensor.numel(), 1, 1
        else:
            _require_contiguous(state, tensor[0], "each block")
            block_stride, inner_size = tensor.stride(0), tensor[0].numel()
            num_blocks = tensor.shape[0]
        return cls(
            base_addr=as_int64(tensor.data_ptr()),
            block_stride=block_stride * tensor.element_size(),
            elem_size=tensor.element_size(),
            inner_size=inner_size,
            conv_width=0,
            num_blocks=num_blocks,
        )

    @classmethod
    def _of_conv_sd(cls, tensor: torch.Tensor) -> StateGeometry:
        """``[num_blocks, state_len, dim]``: the channels of a token side by side."""
        return cls(
            base_addr=as_int64(tensor.data_ptr()),
            block_stride=tensor.stride(0) * tensor.element_size(),
            elem_size=tensor.element_size(),
            inner_size=tensor.stride(1),
            conv_width=tensor.shape[1],
            num_blocks=tensor.shape[0],
        )

    @classmethod
    def _of_conv_ds(cls, tensor: torch.Tensor) -> StateGeometry:
        """``[num_blocks, dim, state_len]``: the tokens of a channel side by side."""
        return cls(
            base_addr=as_int64(tensor.data_ptr()),
            block_stride=tensor.stride(0) * tensor.element_size(),
            elem_size=tensor.element_size(),
            inner_size=1,
            conv_width=tensor.shape[2],
            num_blocks=tensor.shape[0],
            dim_row_count=tensor.shape[1],
            dim_row_stride=tensor.stride(1) * tensor.element_size(),
        )


def _require_contiguous(state: StateTensor, part: torch.Tensor, what: str) -> None:
    if not part.is_contiguous():
        raise ValueError(
            f"{what} of {state.name} must be contiguous in memory, got shape "
            f"{tuple(state.tensor.shape)} with strides {state.tensor.stride()}"
        )


def as_int64(address: int) -> int:
    """A uint64 address by its bit pattern: values of 2**63 and more wrap to negative."""
    return address - 2**64 if address >= 2**63 else address
