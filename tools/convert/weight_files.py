# SPDX-License-Identifier: MIT
"""Weight files of the Whisper family, read and written with numpy alone.

One idea: a tensor is a Tensor(dtype, data), where dtype is the safetensors name of the type and
data a numpy array of what is stored (bfloat16 as uint16). Models are dictionaries of tensors;
each naming scheme has one function that leads to it from OpenAI's names.
"""
import base64
import json
import re
import struct
from collections import namedtuple
from pathlib import Path

import numpy as np

Tensor = namedtuple("Tensor", "dtype data")

NUMPY = {
    "F32": "<f4", "F16": "<f2", "BF16": "<u2", "F64": "<f8", "I64": "<i8", "I32": "<i4",
    "I16": "<i2", "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}
CT2_DTYPES = ["F32", "I8", "I16", "I32", "F16", "BF16"]
GGML_MAGIC = 0x67676D6C


def tensor(array, dtype=None):
    """A Tensor from an ordinary array; dtype says BF16, which numpy cannot."""
    if dtype == "BF16":
        return Tensor("BF16", round_to_bf16(np.asarray(array, np.float32)))
    array = np.asarray(array)
    if dtype is not None:
        array = array.astype(NUMPY[dtype])
    names = {np.dtype(n): d for d, n in NUMPY.items() if d != "BF16"}
    return Tensor(names[array.dtype], array)


def round_to_bf16(x):
    """float32 to the bits of bfloat16, nearest even."""
    u = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((u + 0x7FFF + (u >> 16 & 1)) >> 16).astype(np.uint16)


def to_float32(t):
    if t.dtype == "BF16":
        return (t.data.astype(np.uint32) << 16).view(np.float32)
    return t.data.astype(np.float32)


def cast(t, dtype):
    return t if t.dtype == dtype else tensor(to_float32(t), dtype)


def raw(t):
    return np.ascontiguousarray(t.data).tobytes()


# ---- CTranslate2 ---------------------------------------------------------------------------


def read_ct2(path):
    """(spec name, revision, {name: Tensor}, {alias: name}) of a model.bin, version 4 to 6."""
    data, at = Path(path).read_bytes(), 0

    def take(fmt):
        nonlocal at
        value = struct.unpack_from("<" + fmt, data, at)
        at += struct.calcsize("<" + fmt)
        return value if len(value) > 1 else value[0]

    def text():
        nonlocal at
        n = take("H")
        at += n
        return data[at - n : at - 1].decode()

    version = take("I")
    if not 4 <= version <= 6:
        raise ValueError(f"{path}: CTranslate2 binary version {version}")
    spec, revision, tensors, aliases = text(), take("I"), {}, {}
    for _ in range(take("I")):
        name, rank = text(), take("B")
        shape = [take("I") for _ in range(rank)]
        dtype, size = CT2_DTYPES[take("B")], take("I")
        count = size // np.dtype(NUMPY[dtype]).itemsize
        tensors[name] = Tensor(dtype, np.frombuffer(data, NUMPY[dtype], count, at).reshape(shape))
        at += size
    for _ in range(take("I")):
        alias = text()
        aliases[alias] = text()
    if at != len(data):
        raise ValueError(f"{path}: {len(data) - at} bytes too many")
    return spec, revision, tensors, aliases


def write_ct2(path, spec, revision, tensors, aliases, version=6):
    def text(s):
        return struct.pack("<H", len(s.encode()) + 1) + s.encode() + b"\0"

    with open(path, "wb") as f:
        f.write(struct.pack("<I", version) + text(spec)
                + struct.pack("<II", revision, len(tensors)))
        for name, t in tensors.items():
            shape, body = t.data.shape, raw(t)
            f.write(text(name) + struct.pack(f"<B{len(shape)}I", len(shape), *shape))
            f.write(struct.pack("<BI", CT2_DTYPES.index(t.dtype), len(body)) + body)
        f.write(struct.pack("<I", len(aliases)))
        for alias, name in aliases.items():
            f.write(text(alias) + text(name))


def quantise_int8(t):
    """(weight, scale): rows scaled by 127 / their maximum."""
    x = to_float32(t)
    top = np.abs(x.reshape(len(x), -1)).max(axis=1)
    scale = (127 / np.where(top == 0, 127, top)).astype(np.float32)
    shape = (-1,) + (1,) * (x.ndim - 1)
    return tensor(np.rint(x * scale.reshape(shape)), "I8"), tensor(scale)


def quantise_int16(t):
    """(weight, scale): ten bits over the whole tensor, so that products fit 32-bit sums."""
    x = to_float32(t)
    scale = np.float32(1024 / np.abs(x).max())
    return tensor(np.rint(x * scale), "I16"), tensor(scale)


# ---- safetensors ---------------------------------------------------------------------------


def read_safetensors(path):
    """({name: Tensor}, metadata)"""
    data = Path(path).read_bytes()
    n = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + n])
    metadata, tensors = header.pop("__metadata__", {}), {}
    for name, e in header.items():
        begin, end = e["data_offsets"]
        array = np.frombuffer(data[8 + n + begin : 8 + n + end], NUMPY[e["dtype"]])
        tensors[name] = Tensor(e["dtype"], array.reshape(e["shape"]))
    return tensors, metadata


def write_safetensors(path, tensors, metadata=None):
    """Data begins at a multiple of 8 bytes; wide types come first so that all are aligned."""
    order = sorted(tensors, key=lambda k: -np.dtype(NUMPY[tensors[k].dtype]).itemsize)
    header, at = ({"__metadata__": metadata} if metadata else {}), 0
    for name in order:
        t = tensors[name]
        header[name] = {"dtype": t.dtype, "shape": list(t.data.shape),
                        "data_offsets": [at, at + t.data.nbytes]}
        at += t.data.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            f.write(raw(tensors[name]))


# ---- ggml ----------------------------------------------------------------------------------

GGML_TYPES = {"F32": 0, "F16": 1, "BF16": 30}
GGML_DIMS = ["n_vocab", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer",
             "n_text_ctx", "n_text_state", "n_text_head", "n_text_layer", "n_mels"]


def write_ggml(path, dims, ftype, filters, tokens, tensors):
    """tensors: {name: Tensor} or {name: (ggml type, shape, bytes)} for quantised ones."""
    with open(path, "wb") as f:
        f.write(struct.pack("<I11i", GGML_MAGIC, *(dims[k] for k in GGML_DIMS), ftype))
        f.write(struct.pack("<2i", *filters.shape) + filters.astype("<f4").tobytes())
        f.write(struct.pack("<i", len(tokens)))
        for token in tokens:
            f.write(struct.pack("<I", len(token)) + token)
        for name, t in tensors.items():
            kind, shape, body = t if isinstance(t, tuple) and not isinstance(t, Tensor) else (
                GGML_TYPES[t.dtype], t.data.shape, raw(t))
            f.write(struct.pack("<3i", len(shape), len(name.encode()), kind))
            f.write(struct.pack(f"<{len(shape)}i", *reversed(shape)) + name.encode() + body)


def ggml_tensors(openai):
    """Types and shapes as whisper.cpp expects them: vectors and positions in f32, the two
    convolution biases as columns, everything else in f16."""
    out = {}
    for name, t in openai.items():
        if name in ("encoder.conv1.bias", "encoder.conv2.bias"):
            out[name] = tensor(to_float32(t).reshape(-1, 1))
        elif t.data.ndim < 2 or name.endswith("positional_embedding"):
            out[name] = cast(t, "F32")
        else:
            out[name] = cast(t, "F16")
    return out


def read_tiktoken(path):
    """Tokens in order of their ids. The multilingual list has an empty one, written '='."""
    tokens = {}
    for line in Path(path).read_text().splitlines():
        if line:
            word, rank = line.rsplit(" ", 1)
            tokens[int(rank)] = b"" if word == "=" else base64.b64decode(word)
    return [tokens[i] for i in range(len(tokens))]


# ---- MLX -----------------------------------------------------------------------------------


def quantise_affine(x, bits, group=64):
    """(packed u32 [out, in*bits/32], scales, biases [out, in/group]) of x [out, in], MLX's way:
    the edge of larger magnitude is hit exactly."""
    rows, cols = x.shape
    g = x.astype(np.float32).reshape(rows, cols // group, group)
    low, high = g.min(axis=2), g.max(axis=2)
    low_edge = np.abs(low) > np.abs(high)
    top = np.float32((1 << bits) - 1)
    scale = np.maximum((high - low) / top, np.float32(1e-7))
    scale = np.where(low_edge, scale, -scale).astype(np.float32)
    edge = np.where(low_edge, low, high)
    q0 = np.rint(edge / scale)
    hit = q0 != 0
    scale = np.where(hit, edge / np.where(hit, q0, 1), scale).astype(np.float32)
    bias = np.where(hit, edge, 0).astype(np.float32)
    q = np.clip(np.rint((g - bias[..., None]) / scale[..., None]), 0, top).astype(np.uint8)
    return pack_bits(q.reshape(rows, cols), bits), scale, bias


def pack_bits(q, bits):
    """[rows, cols] of small integers to u32 [rows, cols*bits/32], lowest bits first."""
    stream = (q[..., None] >> np.arange(bits, dtype=np.uint8)) & 1
    packed = np.packbits(stream.reshape(len(q), -1), axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view("<u4")


# ---- names ---------------------------------------------------------------------------------


def ct2_to_openai(tensors, aliases=None):
    """OpenAI's names and shapes from CTranslate2's; q, k, v are stacked there."""
    tensors = dict(tensors)
    for alias, name in (aliases or {}).items():
        tensors.setdefault(alias, tensors[name])
    out = {}

    def put(name, t, part=slice(None)):
        out[name] = Tensor(t.dtype, t.data[part])

    def linear(name, source):
        put(name + ".weight", tensors[source + "/weight"])
        put(name + ".bias", tensors[source + "/bias"])

    def norm(name, source):
        put(name + ".weight", tensors[source + "/gamma"])
        put(name + ".bias", tensors[source + "/beta"])

    def stacked(name, source, parts):
        weight, bias = tensors[source + "/weight"], tensors[source + "/bias"]
        d = weight.data.shape[0] // len(parts)
        for i, part in enumerate(parts):
            rows = slice(i * d, (i + 1) * d)
            put(f"{name}.{part}.weight", weight, rows)
            if part != "key":  # whose bias is stored as zeros
                put(f"{name}.{part}.bias", bias, rows)

    for conv in ("conv1", "conv2"):
        linear(f"encoder.{conv}", f"encoder/{conv}")
    for side in ("encoder", "decoder"):
        put(f"{side}.positional_embedding", tensors[f"{side}/position_encodings/encodings"])
    put("decoder.token_embedding.weight", tensors["decoder/embeddings/weight"])
    norm("encoder.ln_post", "encoder/layer_norm")
    norm("decoder.ln", "decoder/layer_norm")
    for side in ("encoder", "decoder"):
        count = 1 + max(int(m[1]) for k in tensors if (m := re.match(side + r"/layer_(\d+)/", k)))
        for i in range(count):
            s, t = f"{side}/layer_{i}", f"{side}.blocks.{i}"
            norm(t + ".attn_ln", s + "/self_attention/layer_norm")
            stacked(t + ".attn", s + "/self_attention/linear_0", ["query", "key", "value"])
            linear(t + ".attn.out", s + "/self_attention/linear_1")
            if side == "decoder":
                norm(t + ".cross_attn_ln", s + "/attention/layer_norm")
                linear(t + ".cross_attn.query", s + "/attention/linear_0")
                stacked(t + ".cross_attn", s + "/attention/linear_1", ["key", "value"])
                linear(t + ".cross_attn.out", s + "/attention/linear_2")
            norm(t + ".mlp_ln", s + "/ffn/layer_norm")
            linear(t + ".mlp.0", s + "/ffn/linear_0")
            linear(t + ".mlp.2", s + "/ffn/linear_1")
    return out


HF_PARTS = [
    ("decoder.token_embedding.", "decoder.embed_tokens."),
    ("encoder.ln_post.", "encoder.layer_norm."),
    ("decoder.ln.", "decoder.layer_norm."), ("positional_embedding", "embed_positions.weight"),
    (".blocks.", ".layers."), (".cross_attn_ln.", ".encoder_attn_layer_norm."),
    (".attn_ln.", ".self_attn_layer_norm."), (".cross_attn.", ".encoder_attn."),
    (".attn.", ".self_attn."), (".mlp_ln.", ".final_layer_norm."), (".mlp.0.", ".fc1."),
    (".mlp.2.", ".fc2."),
]


def openai_to_hf_name(name):
    for old, new in HF_PARTS:
        name = name.replace(old, new)
    if "_attn." in name:
        for old, new in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"),
                         ("out", "out_proj")):
            name = name.replace(f"_attn.{old}.", f"_attn.{new}.")
    return "model." + name


def openai_to_mlx(openai):
    """MLX computes the encoder's positions and keeps convolutions as [out, k, in]."""
    out = {}
    for name, t in openai.items():
        if name == "encoder.positional_embedding":
            continue
        if name in ("encoder.conv1.weight", "encoder.conv2.weight"):
            t = Tensor(t.dtype, t.data.transpose(0, 2, 1))
        out[name.replace(".mlp.0.", ".mlp1.").replace(".mlp.2.", ".mlp2.")] = t
    return out


def whisper_dims(openai):
    """The ten sizes; heads have 64 channels in every released model."""
    shape = {k: t.data.shape for k, t in openai.items()}

    def layers(side):
        return 1 + max(int(m[1]) for k in openai if (m := re.match(side + r"\.blocks\.(\d+)\.", k)))

    d = shape["encoder.ln_post.weight"][0]
    vocab, d_text = shape["decoder.token_embedding.weight"]
    return {
        "n_mels": shape["encoder.conv1.weight"][1],
        "n_audio_ctx": shape["encoder.positional_embedding"][0], "n_audio_state": d,
        "n_audio_head": max(d // 64, 1), "n_audio_layer": layers("encoder"), "n_vocab": vocab,
        "n_text_ctx": shape["decoder.positional_embedding"][0], "n_text_state": d_text,
        "n_text_head": max(d_text // 64, 1), "n_text_layer": layers("decoder"),
    }
