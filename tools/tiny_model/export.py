#!/usr/bin/env python3
"""Writes what train.py made as a model file: export.py RUN-FOLDER OUT.gguf. Matrices become Q8_0, norms stay F32."""
import os
import sys

import numpy
import torch

import chats
import gguf_file
import model
import tokenizer
import train

CONTEXT = 2048


def put_metadata(out, words):
    out.put("general.architecture", "qwen3")
    out.put("general.type", "model")
    out.put("general.name", "vigil-tiny")
    out.put("general.description", "A very small model of a small world, trained by Vigil's tools/tiny_model: greetings, facts, small sums, copying, tool calls")
    out.put("general.license", "mit")
    out.put("general.alignment", gguf_file.ALIGNMENT)
    out.put("general.quantization_version", 2)
    out.put("general.file_type", 7)   # mostly Q8_0
    out.put("qwen3.context_length", CONTEXT)
    out.put("qwen3.embedding_length", model.WIDTH)
    out.put("qwen3.block_count", model.LAYERS)
    out.put("qwen3.feed_forward_length", model.INNER)
    out.put("qwen3.attention.head_count", model.HEADS)
    out.put("qwen3.attention.head_count_kv", model.KV_HEADS)
    out.put("qwen3.attention.key_length", model.HEAD)
    out.put("qwen3.attention.value_length", model.HEAD)
    out.put("qwen3.attention.layer_norm_rms_epsilon", model.EPSILON)
    out.put("qwen3.rope.dimension_count", model.HEAD)
    out.put("qwen3.rope.freq_base", model.ROPE_BASE)
    out.put("qwen3.vocab_size", len(words))
    out.put("tokenizer.ggml.model", "gpt2")
    out.put("tokenizer.ggml.pre", "qwen2")
    out.put("tokenizer.ggml.tokens", words.pieces)
    kinds = {**{piece: 3 for piece in tokenizer.CONTROL}, **{piece: 4 for piece in tokenizer.MARKUP}}   # control, user-defined
    out.put("tokenizer.ggml.token_type", [kinds.get(piece, 1) for piece in words.pieces])
    out.put("tokenizer.ggml.merges", [f"{left} {right}" for left, right in words.merges])
    out.put("tokenizer.ggml.eos_token_id", words.ids["<|im_end|>"])
    out.put("tokenizer.ggml.padding_token_id", words.ids["<|endoftext|>"])
    out.put("tokenizer.ggml.add_bos_token", False)
    out.put("tokenizer.chat_template", chats.TEMPLATE)


def put_weights(out, network):
    def matrix(name, weights):
        out.add(name + ".weight", weights.detach().numpy(), gguf_file.Q8_0)

    def norm(name, weights, size):
        out.add(name + ".weight", numpy.ones(size, numpy.float32) if weights is None else weights.detach().numpy(), gguf_file.F32)

    matrix("token_embd", network.embedding.weight)
    q_rows, kv_rows = model.HEADS * model.HEAD, model.KV_HEADS * model.HEAD
    for at, layer in enumerate(network.layers):
        block = f"blk.{at}."
        norm(block + "attn_norm", layer.attn_norm.weight, model.WIDTH)
        q, k, v = layer.qkv.weight.split((q_rows, kv_rows, kv_rows))
        matrix(block + "attn_q", q)
        matrix(block + "attn_k", k)
        matrix(block + "attn_v", v)
        norm(block + "attn_q_norm", layer.q_norm.weight, model.HEAD)
        norm(block + "attn_k_norm", layer.k_norm.weight, model.HEAD)
        matrix(block + "attn_output", layer.out.weight)
        norm(block + "ffn_norm", layer.ffn_norm.weight, model.WIDTH)
        gate, up = layer.gate_up.weight.chunk(2)
        matrix(block + "ffn_gate", gate)
        matrix(block + "ffn_up", up)
        matrix(block + "ffn_down", layer.down.weight)
    norm("output_norm", network.norm.weight, model.WIDTH)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: export.py RUN-FOLDER OUT.gguf")
    folder, path = sys.argv[1:]
    words = train.make_tokenizer(folder)
    network = model.Model(len(words))
    train.Flat(network).values.copy_(torch.load(os.path.join(folder, "checkpoint.pt"))["values"])
    out = gguf_file.Writer()
    put_metadata(out, words)
    put_weights(out, network)
    out.write(path)
    print(f"{path}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
