"""A model of your own as a workload: Hugging Face's GPT2LMHeadModel, built from a config. Nothing is downloaded.

    pip install -e .[hf]
    pytest perf_tests -m gpu --workload examples.huggingface_gpt2:small             # 124 M parameters, on GPUs
    pytest perf_tests -m gpu --rehearse --workload examples.huggingface_gpt2:small  # trains ``tiny`` on gloo ranks

The head and the token embedding share one parameter. Neither is in a block, so both stay in the root's unit.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from fixtures.workloads import Workload, adamw


def small() -> Workload:
    """GPT-2 small as Hugging Face configures it: 12 layers, width 768, 4 x 1024 tokens a rank."""
    config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    return workload("huggingface-gpt2", config, micro_batch=4, rehearsal="examples.huggingface_gpt2:tiny")


def tiny() -> Workload:
    """The same model, small enough for gloo ranks on a laptop."""
    config = GPT2Config(
        n_layer=4, n_head=4, n_embd=128, vocab_size=512, n_positions=32,
        bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
    )  # fmt: skip
    return workload("huggingface-gpt2-tiny", config, micro_batch=1)


def workload(name: str, config: GPT2Config, micro_batch: int, rehearsal: str | None = None) -> Workload:
    """Train GPT2LMHeadModel on random tokens: a batch is (B, T + 1) int64, inputs and the tokens that follow them."""

    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        logits = model(input_ids=tokens[:, :-1]).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

    return Workload(
        name=name,
        model=partial(GPT2LMHeadModel, config),
        batch=lambda generator: torch.randint(
            config.vocab_size, (micro_batch, config.n_positions + 1), generator=generator
        ),
        loss=loss,
        optimizer=adamw,
        blocks=lambda model: list(model.get_submodule("transformer.h").children()),
        tokens_per_batch=micro_batch * config.n_positions,
        rehearsal=rehearsal,
    )
