#!/usr/bin/env python3
"""Writes a model and its vocabulary as one GGUF file.

export.py build/storyteller models/storyteller.gguf     # checkpoint.pt and vocab.json -> F16
"""

import argparse

import torch

import gguf_writer as gguf
import vocab as vocabulary
from model import Config, Llama

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' +"
    " '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def architecture_keys(config):
    number = gguf.U32
    keys = {
        "block_count": number(config.layers),
        "context_length": number(config.context),
        "embedding_length": number(config.dim),
        "feed_forward_length": number(config.ffn),
        "attention.head_count": number(config.heads),
        "attention.head_count_kv": number(config.kv_heads),
        "attention.layer_norm_rms_epsilon": config.eps,
        "rope.dimension_count": number(config.head_dim),
        "rope.freq_base": config.rope_base,
        "vocab_size": number(config.vocab),
    }
    if config.rope_factor != 1.0:
        keys |= {"rope.scaling.type": "linear", "rope.scaling.factor": config.rope_factor}
    return {f"llama.{name}": value for name, value in keys.items()}


def tokenizer_keys(vocab):
    number = gguf.U32
    keys = {
        "model": "llama",
        "tokens": vocab.tokens,
        "scores": vocab.scores,
        "token_type": vocab.types,
        "bos_token_id": number(vocabulary.BOS),
        "eos_token_id": number(vocabulary.EOS),
        "unknown_token_id": number(vocabulary.UNK),
        "add_bos_token": True,
        "add_eos_token": False,
        "add_space_prefix": True,
        "space_prefix_scheme": "first",  # as in vocab.py: none after the marks of chats
    }
    keys = {f"tokenizer.ggml.{name}": value for name, value in keys.items()}
    if vocabulary.IM_END in vocab.id_of:
        keys["tokenizer.ggml.eot_token_id"] = number(vocab.id_of[vocabulary.IM_END])
        keys["tokenizer.chat_template"] = CHAT_TEMPLATE
    return keys


def export(model, vocab, path, name, kind):
    """Matrices are stored as `kind`, norms as F32.  Returns the model with the weights as stored."""
    keys = {
        "general.architecture": "llama",
        "general.name": name,
        "general.license": "apache-2.0",
        "general.file_type": gguf.U32(gguf.FILE_TYPE[kind]),
    }
    keys |= architecture_keys(model.config) | tokenizer_keys(vocab)
    tensors, stored = {}, {}
    for tensor, weight in model.state_dict().items():
        kind_here = kind if weight.dim() == 2 else gguf.F32
        data = gguf.store(weight.numpy(), kind_here)
        tensors[tensor] = (kind_here, tuple(weight.shape), data)
        stored[tensor] = torch.from_numpy(gguf.load(data, kind_here, tuple(weight.shape)).copy())
    gguf.write(path, keys, tensors)
    return with_weights(model.config, stored)


def with_weights(config, weights):
    model = Llama(config)
    model.load_state_dict(weights)
    return model.eval()


def load_checkpoint(folder):
    """(model, vocabulary, facts of the training)"""
    content = torch.load(f"{folder}/checkpoint.pt")
    model = with_weights(Config(**content["config"]), content["weights"])
    return model, vocabulary.load(f"{folder}/vocab.json"), content["facts"]


def main():
    parser = argparse.ArgumentParser(description="write the trained storyteller as GGUF")
    parser.add_argument("folder", help="where train.py wrote checkpoint.pt and vocab.json")
    parser.add_argument("output")
    parser.add_argument("--type", choices=list(gguf.TYPES), default="f16")
    options = parser.parse_args()
    model, vocab, _ = load_checkpoint(options.folder)
    export(model, vocab, options.output, "storyteller", gguf.TYPES[options.type])


if __name__ == "__main__":
    main()
