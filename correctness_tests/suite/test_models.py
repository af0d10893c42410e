"""The suite's GPT-2 is GPT-2, and its MLP keeps whole numbers whole."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from fixtures.models import GPT, INIT_STD, LARGE, MLP, GPTConfig

pytestmark = pytest.mark.cpu

TINY = GPTConfig(layers=2, heads=2, width=16, vocab=32, context=8)


def tiny() -> GPT:
    """A GPT-2 small enough to run in a millisecond."""
    torch.manual_seed(0)
    return GPT(TINY)


def test_large_has_exactly_the_published_parameter_count() -> None:
    """GPT-2 Large has 774,090,240 parameters, biases and learned positions included, the tied head counted once."""
    with torch.device("meta"):
        model = GPT(LARGE)
    assert sum(p.numel() for p in model.parameters()) == 774_090_240


def test_a_token_is_not_seen_before_its_position() -> None:
    """Attention is causal: another last token leaves every earlier logit as it was, bit for bit, and moves its own."""
    model, tokens = tiny(), torch.arange(8).view(1, 8)
    other = tokens.clone()
    other[0, -1] = 31
    before, after = model(tokens), model(other)
    assert torch.equal(before[:, :-1], after[:, :-1])
    assert not torch.equal(before[:, -1], after[:, -1])


def test_positions_matter() -> None:
    """Positions are learned and added: the same token twice gives different logits."""
    logits = tiny()(torch.zeros(1, 2, dtype=torch.int64))
    assert not torch.allclose(logits[:, 0], logits[:, 1])


def test_the_head_is_the_token_embedding() -> None:
    """The head is tied: doubling the embedding of a token that is not in the input doubles its logit."""
    model, tokens = tiny(), torch.zeros(1, 4, dtype=torch.int64)
    before = model(tokens)[..., 5]
    with torch.no_grad():
        model.tokens.weight[5] *= 2
    assert torch.equal(model(tokens)[..., 5], 2 * before)


def test_training_mode_has_no_dropout() -> None:
    """Two forwards in training mode agree bit for bit, so that two strategies can be compared."""
    model, tokens = tiny().train(), torch.arange(8).view(1, 8)
    assert torch.equal(model(tokens), model(tokens))


def test_weights_start_as_gpt2s_do() -> None:
    """Weights are N(0, 0.02), those that add into the residual stream smaller by sqrt(2L), biases 0."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(layers=2, heads=2, width=128, vocab=512, context=64))
    expected = {
        "tokens.weight": INIT_STD,
        "positions.weight": INIT_STD,
        "blocks.0.attention.qkv.weight": INIT_STD,
        "blocks.0.feed_forward.up.weight": INIT_STD,
        "blocks.0.attention.out.weight": INIT_STD / math.sqrt(4),
        "blocks.0.feed_forward.down.weight": INIT_STD / math.sqrt(4),
    }
    for name, std in expected.items():
        weight = model.get_parameter(name)
        # The sample deviation of n normal draws is off by std / sqrt(2n); 5 of those is one test run in two million.
        assert abs(weight.std().item() - std) < 5 * std / math.sqrt(2 * weight.numel())
    assert all(not p.any() for name, p in model.named_parameters() if name.endswith("bias"))


def test_the_first_loss_is_that_of_a_guess() -> None:
    """Before training the model prefers no token: the loss of random tokens is ln V within 2%."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(layers=2, heads=2, width=64, vocab=512, context=32))
    tokens = torch.randint(512, (4, 33))
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    assert loss.item() == pytest.approx(math.log(512), rel=0.02)


def test_gpt2_computes_what_hugging_face_computes() -> None:
    """With the same weights the logits are those of transformers' GPT2LMHeadModel."""
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install -e .[hf]")
    config = transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=16, vocab_size=32, n_positions=8, bos_token_id=0, eos_token_id=0
    )
    torch.manual_seed(0)
    theirs = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():  # as small as they start, every activation function is nearly linear
            parameter.copy_(torch.randn_like(parameter) / 2)
    ours = tiny()
    ours.load_state_dict({name: _theirs(theirs, name) for name in ours.state_dict()})
    tokens = torch.arange(16).view(2, 8)
    # Logits are of order 10 and float32 rounds by 6e-8; GELU's two forms alone would differ by up to 5e-4 a unit.
    torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=1e-5, atol=1e-5)


NAMES = {
    "tokens": "wte", "positions": "wpe", "norm": "ln_f", "blocks": "h", "attention_norm": "ln_1",
    "attention": "attn", "qkv": "c_attn", "out": "c_proj", "feed_forward_norm": "ln_2", "feed_forward": "mlp",
    "up": "c_fc", "down": "c_proj",
}  # fmt: skip


def _theirs(model: torch.nn.Module, name: str) -> torch.Tensor:
    """Their value of our parameter; their projections hold the transposed weight, (in, out)."""
    path = ".".join(NAMES.get(part, part) for part in name.split("."))
    value: torch.Tensor = model.state_dict()[f"transformer.{path}"]
    projection = any(part in name for part in ("qkv", ".out.", ".up.", ".down."))
    return value.T if projection and value.dim() == 2 else value


def test_a_width_that_heads_do_not_divide_is_refused() -> None:
    """A GPTConfig whose width is not a multiple of its heads raises, naming both."""
    with pytest.raises(ValueError, match="width 10 is not a multiple of 3 heads"):
        GPTConfig(layers=1, heads=3, width=10, vocab=8, context=4)


def test_the_mlp_keeps_small_integers_exact() -> None:
    """With whole weights and inputs the MLP's output is whole: what exact gradient comparisons stand on."""
    model = MLP(layers=2, width=3, hidden=5)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randint(-2, 3, p.shape))
    y = model(torch.randint(-3, 4, (4, 3)).float())
    assert torch.equal(y, y.round())
