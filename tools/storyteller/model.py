"""The Llama architecture in plain PyTorch, fp32: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

Rotary positions rotate neighbouring pairs (x[2i], x[2i+1]), as the weights of GGUF "llama" files expect.  Parameters
carry the names of GGUF tensors (token_embd.weight, blk.0.attn_q.weight, ...), so that exporting is a loop.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Config:
    vocab: int = 2048
    dim: int = 192
    layers: int = 6
    heads: int = 6
    kv_heads: int = 3
    ffn: int = 512
    context: int = 512
    rope_base: float = 10000.0
    rope_factor: float = 1.0  # linear scaling: positions are divided by it
    eps: float = 1e-5
    tied: bool = True
    half_cache: bool = False  # keys and values are rounded to fp16, as an engine's cache keeps them

    @property
    def head_dim(self):
        return self.dim // self.heads


def rope_table(config, length):
    """cos and sin of every position and pair: two tensors [length, head_dim / 2]."""
    pair = torch.arange(0, config.head_dim, 2, dtype=torch.float64)
    frequency = config.rope_base ** (-pair / config.head_dim)
    angle = torch.arange(length, dtype=torch.float64)[:, None] / config.rope_factor * frequency
    return angle.cos().float(), angle.sin().float()


def rotate(x, cos, sin):
    """x: [batch, head, token, head_dim]"""
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
    return turned.flatten(-2)


class Norm(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.eps = config.eps
        self.weight = nn.Parameter(torch.ones(config.dim))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def _linear(n_in, n_out):
    return nn.Linear(n_in, n_out, bias=False)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        kv_dim = config.kv_heads * config.head_dim
        self.attn_norm = Norm(config)
        self.attn_q = _linear(config.dim, config.dim)
        self.attn_k = _linear(config.dim, kv_dim)
        self.attn_v = _linear(config.dim, kv_dim)
        self.attn_output = _linear(config.dim, config.dim)
        self.ffn_norm = Norm(config)
        self.ffn_gate = _linear(config.dim, config.ffn)
        self.ffn_up = _linear(config.dim, config.ffn)
        self.ffn_down = _linear(config.ffn, config.dim)

    def forward(self, x, cos, sin, mask):
        x = x + self.attention(self.attn_norm(x), cos, sin, mask)
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))

    def attention(self, x, cos, sin, mask):
        config = self.config
        batch, tokens, _ = x.shape
        q, k, v = (
            linear(x).view(batch, tokens, -1, config.head_dim).transpose(1, 2)
            for linear in (self.attn_q, self.attn_k, self.attn_v)
        )
        q, k = rotate(q, cos, sin) / math.sqrt(config.head_dim), rotate(k, cos, sin)
        if config.half_cache:
            k, v = k.half().float(), v.half().float()
        group = config.heads // config.kv_heads  # consecutive query heads share one kv head
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        weights = (q @ k.transpose(2, 3) + mask).softmax(-1)
        return self.attn_output((weights @ v).transpose(1, 2).reshape(batch, tokens, -1))


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.token_embd = nn.Embedding(config.vocab, config.dim)
        self.blk = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.output_norm = Norm(config)
        if not config.tied:
            self.output = _linear(config.dim, config.vocab)
        cos, sin = rope_table(config, config.context)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        mask = torch.full((config.context, config.context), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def init_weights(self, generator):
        """Matrices keep the size of their input, or half of it if they write into the residual stream."""
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                writes = "attn_output" in name or "ffn_down" in name
                weight.data.normal_(0, (0.5 if writes else 1.0) * weight.shape[1] ** -0.5, generator=generator)
        self.token_embd.weight.data.normal_(0, 0.08, generator=generator)

    def forward(self, ids):
        """ids: [batch, token] -> logits [batch, token, vocab]"""
        tokens = ids.shape[1]
        cos, sin, mask = self.cos[:tokens], self.sin[:tokens], self.mask[:tokens, :tokens]
        x = self.token_embd(ids)
        for block in self.blk:
            x = block(x, cos, sin, mask)
        x = self.output_norm(x)
        return F.linear(x, self.token_embd.weight if self.config.tied else self.output.weight)


def parameter_count(model):
    return sum(weight.numel() for weight in model.parameters())
