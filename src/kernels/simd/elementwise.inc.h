/* SPDX-License-Identifier: MIT
 *
 * Element-wise kernels, written once for any vector (include a vec_*.h and math.inc.h first;
 * VO_FN(name) gives each level its own names). The tail goes through the same vector code
 * with part of the lanes switched off, so a result depends on its own input only, not
 * on where in the array it stands.
 */

static inline void map1(int64_t n, const float *x, float *y, vf (*f)(vf)) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES) v_store(y + i, f(v_load(x + i)));
    if (i < n) v_store_n(y + i, f(v_load_n(x + i, (int)(n - i))), (int)(n - i));
}

static inline void map2(int64_t n, const float *a, const float *b, float *y, vf (*f)(vf, vf)) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES) v_store(y + i, f(v_load(a + i), v_load(b + i)));
    if (i < n) {
        const int rest = (int)(n - i);
        v_store_n(y + i, f(v_load_n(a + i, rest), v_load_n(b + i, rest)), rest);
    }
}

void VO_FN(add)(int64_t n, const float *a, const float *b, float *y) {
    map2(n, a, b, y, v_add);
}

void VO_FN(mul)(int64_t n, const float *a, const float *b, float *y) {
    map2(n, a, b, y, v_mul);
}

void VO_FN(scale)(int64_t n, const float *x, float s, float *y) {
    const vf vs = v_set(s);
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES) v_store(y + i, v_mul(vs, v_load(x + i)));
    if (i < n) v_store_n(y + i, v_mul(vs, v_load_n(x + i, (int)(n - i))), (int)(n - i));
}

void VO_FN(axpy)(int64_t n, float s, const float *x, float *y) {
    const vf vs = v_set(s);
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        v_store(y + i, v_fma(vs, v_load(x + i), v_load(y + i)));
    if (i < n) {
        const int rest = (int)(n - i);
        v_store_n(y + i, v_fma(vs, v_load_n(x + i, rest), v_load_n(y + i, rest)), rest);
    }
}

void VO_FN(gelu)(int64_t n, const float *x, float *y) {
    map1(n, x, y, v_gelu);
}

static inline vf v_relu(vf x) {
    return v_max(v_set(0.0f), x);
}
void VO_FN(relu)(int64_t n, const float *x, float *y) {
    map1(n, x, y, v_relu);
}

void VO_FN(sigmoid)(int64_t n, const float *x, float *y) {
    map1(n, x, y, v_sigmoid);
}

void VO_FN(tanh)(int64_t n, const float *x, float *y) {
    map1(n, x, y, v_tanh);
}

void VO_FN(sqrt)(int64_t n, const float *x, float *y) {
    map1(n, x, y, v_sqrt);
}

void VO_FN(exp)(int64_t n, const float *x, float *y) {
    map1(n, x, y, v_exp);
}

void VO_FN(f16_to_f32)(int64_t n, const uint16_t *x, float *y) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES) v_store(y + i, v_load_f16(x + i));
    if (i < n) v_store_n(y + i, v_load_f16_n(x + i, (int)(n - i)), (int)(n - i));
}

void VO_FN(f32_to_f16)(int64_t n, const float *x, uint16_t *y) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES) v_store_f16(y + i, v_load(x + i));
    if (i < n) v_store_f16_n(y + i, v_load_n(x + i, (int)(n - i)), (int)(n - i));
}
