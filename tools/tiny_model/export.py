#!/usr/bin/python3
"""Writes what train_vision.py and train.py made as model files: export.py RUN-FOLDER OUT-FOLDER makes vigil-tiny.gguf and vigil-tiny-mmproj.gguf.
Matrices become Q8_0; norms, biases, the patches' kernel and the places stay F32."""
import os
import sys

import numpy
import torch

import chats
import drawing
import gguf_file
import model
import tokenizer
import train
import vision_model

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


def put_projector_metadata(out):
    out.put("general.architecture", "clip")
    out.put("general.type", "mmproj")
    out.put("general.name", "vigil-tiny-mmproj")
    out.put("general.description", "The eyes of vigil-tiny, trained by Vigil's tools/tiny_model: one shape of one colour at one place")
    out.put("general.license", "mit")
    out.put("general.alignment", gguf_file.ALIGNMENT)
    out.put("general.quantization_version", 2)
    out.put("general.file_type", 7)   # mostly Q8_0
    out.put("clip.has_vision_encoder", True)
    out.put("clip.projector_type", "gemma3")
    out.put("clip.use_gelu", True)
    out.put("clip.vision.image_size", drawing.SIDE)
    out.put("clip.vision.patch_size", vision_model.PATCH)
    out.put("clip.vision.embedding_length", vision_model.WIDTH)
    out.put("clip.vision.feed_forward_length", vision_model.INNER)
    out.put("clip.vision.block_count", vision_model.LAYERS)
    out.put("clip.vision.projection_dim", model.WIDTH)
    out.put("clip.vision.attention.head_count", vision_model.HEADS)
    out.put("clip.vision.attention.layer_norm_epsilon", vision_model.EPSILON)
    out.put("clip.vision.projector.scale_factor", vision_model.MERGE)
    out.put("clip.vision.image_mean", [vision_model.MEAN] * 3)
    out.put("clip.vision.image_std", [vision_model.DEVIATION] * 3)


def put_projector_weights(out, encoder, projector):
    def plain(name, weights):
        out.add(name, weights.detach().numpy(), gguf_file.F32)

    def linear(name, weights, bias):
        out.add(name + ".weight", weights.detach().numpy(), gguf_file.Q8_0)
        plain(name + ".bias", bias)

    def norm(name, one):
        plain(name + ".weight", one.weight)
        plain(name + ".bias", one.bias)

    plain("v.patch_embd.weight", encoder.patch.weight.view(-1, 3, vision_model.PATCH, vision_model.PATCH))
    plain("v.patch_embd.bias", encoder.patch.bias)
    plain("v.position_embd.weight", encoder.places)
    for at, layer in enumerate(encoder.layers):
        block = f"v.blk.{at}."
        norm(block + "ln1", layer.ln1)
        norm(block + "ln2", layer.ln2)
        for name, weights, bias in zip("qkv", layer.qkv.weight.chunk(3), layer.qkv.bias.chunk(3)):
            linear(f"{block}attn_{name}", weights, bias)
        linear(block + "attn_out", layer.out.weight, layer.out.bias)
        linear(block + "ffn_up", layer.up.weight, layer.up.bias)
        linear(block + "ffn_down", layer.down.weight, layer.down.bias)
    norm("v.post_ln", encoder.norm)
    plain("mm.soft_emb_norm.weight", projector.norm.weight)
    out.add("mm.input_projection.weight", projector.matrix.weight.detach().t().numpy(), gguf_file.Q8_0)   # [from, to]


def write(out, path):
    out.write(path)
    print(f"{path}: {os.path.getsize(path)} bytes")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: export.py RUN-FOLDER OUT-FOLDER")
    folder, to = sys.argv[1:]
    words = train.make_tokenizer(folder)
    network = model.Model(len(words))
    # The mean of the weights behind the first fall of the rate and behind the second is better than either (docs/bundled-model.md).
    first, last = torch.load(os.path.join(folder, "first.pt")), torch.load(os.path.join(folder, "checkpoint.pt"))["values"]
    train.Flat(network).values.copy_((first + last) / 2)
    out = gguf_file.Writer()
    put_metadata(out, words)
    put_weights(out, network)
    write(out, os.path.join(to, "vigil-tiny.gguf"))
    out = gguf_file.Writer()
    put_projector_metadata(out)
    put_projector_weights(out, train.load_encoder(folder), network.projector)
    write(out, os.path.join(to, "vigil-tiny-mmproj.gguf"))


if __name__ == "__main__":
    main()
