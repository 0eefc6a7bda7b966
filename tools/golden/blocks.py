# SPDX-License-Identifier: MIT
"""ggml's quantised blocks in numpy, from the description in the notes on formats and not from
the C code, so that the two can be compared. unpack(name, bytes) gives float32 values; products
and sums are float32 in ggml's order, so results must agree bit for bit."""
import numpy as np

# ggml type number, bytes a block, values a block
TYPES = {
    "q4_0": (2, 18, 32), "q4_1": (3, 20, 32), "q5_0": (6, 22, 32), "q5_1": (7, 24, 32),
    "q8_0": (8, 34, 32), "q2_k": (10, 84, 256), "q3_k": (11, 110, 256), "q4_k": (12, 144, 256),
    "q5_k": (13, 176, 256), "q6_k": (14, 210, 256),
}
F = np.float32


def half(b):
    return np.ascontiguousarray(b).view("<f2").astype(F)


def nibbles(b):
    """[n, 16] bytes to [n, 32]: low halves first"""
    return np.concatenate([b & 15, b >> 4], axis=1).astype(np.int32)


def fifth_bits(b):
    """[n, 4] bytes to [n, 32] values 0 or 16"""
    return np.unpackbits(b, axis=1, bitorder="little").astype(np.int32) << 4


def q4_0(b):
    return (nibbles(b[:, 2:]) - 8).astype(F) * half(b[:, :2])


def q4_1(b):
    return nibbles(b[:, 4:]).astype(F) * half(b[:, :2]) + half(b[:, 2:4])


def q5_0(b):
    return ((nibbles(b[:, 6:]) | fifth_bits(b[:, 2:6])) - 16).astype(F) * half(b[:, :2])


def q5_1(b):
    q = nibbles(b[:, 8:]) | fifth_bits(b[:, 4:8])
    return q.astype(F) * half(b[:, :2]) + half(b[:, 2:4])


def q8_0(b):
    return b[:, 2:].view(np.int8).astype(F) * half(b[:, :2])


def bit_pairs(b):
    """[n, 64] bytes to [n, 256]: of each half of 32 bytes the lowest pairs first"""
    planes = b.reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1) & 3
    return planes.reshape(-1, 256).astype(np.int32)


def q2_k(b):
    d, dmin = half(b[:, 80:82]), half(b[:, 82:84])
    scale = np.repeat(d * (b[:, :16] & 15).astype(F), 16, axis=1)
    minimum = np.repeat(dmin * (b[:, :16] >> 4).astype(F), 16, axis=1)
    return scale * bit_pairs(b[:, 16:80]).astype(F) - minimum


def q3_k(b):
    s = b[:, 96:108].astype(np.int32)
    low = np.concatenate([s[:, :8] & 15, s[:, :8] >> 4], axis=1)
    top = np.concatenate([s[:, 8:] >> shift & 3 for shift in (0, 2, 4, 6)], axis=1)
    scale = half(b[:, 108:110]) * (low + (top << 4) - 32).astype(F)
    third = b[:, None, :32] >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1) & 1
    q = bit_pairs(b[:, 32:96]) - 4 * (1 - third.reshape(-1, 256).astype(np.int32))
    return np.repeat(scale, 16, axis=1) * q.astype(F)


def six_bit_pairs(s):
    """[n, 12] bytes to eight scales and eight minima"""
    s = s.astype(np.int32)
    a, b, c = s[:, :4], s[:, 4:8], s[:, 8:]
    scale = np.concatenate([a & 63, (c & 15) | (a >> 6) << 4], axis=1)
    minimum = np.concatenate([b & 63, c >> 4 | (b >> 6) << 4], axis=1)
    return scale, minimum


def q45_k(b, ql, high):
    scale, minimum = six_bit_pairs(b[:, 4:16])
    scale, minimum = half(b[:, :2]) * scale.astype(F), half(b[:, 2:4]) * minimum.astype(F)
    q = ql.reshape(-1, 4, 1, 32) >> np.array([0, 4], np.uint8).reshape(1, 1, 2, 1) & 15
    q = q.reshape(-1, 8, 32).astype(np.int32) + high
    return (scale[:, :, None] * q.astype(F) - minimum[:, :, None]).reshape(-1, 256)


def q4_k(b):
    return q45_k(b, b[:, 16:], 0)


def q5_k(b):
    bits = b[:, None, 16:48] >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1) & 1
    return q45_k(b, b[:, 48:], bits.astype(np.int32) << 4)


def q6_k(b):
    ql = b[:, :128].reshape(-1, 2, 2, 32)  # half, low or high 32 positions
    low = np.stack([ql & 15, ql >> 4], axis=2).reshape(-1, 2, 4, 32)
    qh = b[:, 128:192].reshape(-1, 2, 1, 32)
    top = qh >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1) & 3
    q = (low.astype(np.int32) | top.astype(np.int32) << 4) - 32
    scale = half(b[:, 208:210]) * b[:, 192:208].view(np.int8).astype(F)
    return np.repeat(scale, 16, axis=1) * q.reshape(-1, 256).astype(F)


def unpack(name, data):
    block = TYPES[name][1]
    return globals()[name](np.frombuffer(data, np.uint8).reshape(-1, block)).reshape(-1)
