/* SPDX-License-Identifier: MIT
 *
 * exp, GELU, sigmoid and tanh on one vector (include a vec_*.h first). The polynomials
 * are weighted minimax fits (Lawson's iteration on a Chebyshev grid); tests/kernels holds the
 * errors stated here against a sweep over all binades.
 */
#ifndef VO_KERNELS_SIMD_MATH_INC_H
#define VO_KERNELS_SIMD_MATH_INC_H

/* e^r for |r| <= ln(2)/2; the polynomial's own error is 3.1e-9. */
static inline vf v_exp_reduced(vf r) {
    vf q = v_set(0x1.6a23dp-10f);
    q = v_fma(q, r, v_set(0x1.123a2p-7f));
    q = v_fma(q, r, v_set(0x1.5558f2p-5f));
    q = v_fma(q, r, v_set(0x1.555492p-3f));
    q = v_fma(q, r, v_set(0x1.fffffcp-2f));
    q = v_fma(q, r, v_set(1.0f));
    return v_fma(q, r, v_set(1.0f));
}

/* e^x, at most 1.2 ulp off over the whole range; underflow is gradual, overflow gives
 * +inf, exp(-inf) = 0, NaN stays NaN. The clamp keeps 2^n inside v_ldexp's range. */
static inline vf v_exp(vf x) {
    x = v_min(v_set(89.0f), x);
    x = v_max(v_set(-104.0f), x);
    const vf n = v_round(v_mul(x, v_set(0x1.715476p+0f)));
    /* ln 2 in two parts, the first so short that n times it is exact */
    vf r = v_fnma(n, v_set(0x1.62e4p-1f), x);
    r = v_fnma(n, v_set(0x1.7f7d1cp-20f), r);
    return v_ldexp(v_exp_reduced(r), n);
}

/* x/2 (1 + erf(x / sqrt 2)) = max(x, 0) - t Q(t) with t = |x| and Q the upper tail of the
 * normal distribution. log2 Q is close to a parabola, so one polynomial of degree 10
 * covers t <= 10, where t Q(t) has fallen to 8e-23, with a relative error that stays below
 * 1e-3 even there: small negative outputs keep their digits. Absolute error 3e-7 max(1, |x|). */
static inline vf v_gelu(vf x) {
    const vf t = v_min(v_set(10.0f), v_abs(x));
    vf p = v_set(-0x1.3a49c8p-28f);
    p = v_fma(p, t, v_set(0x1.ac61fcp-23f));
    p = v_fma(p, t, v_set(-0x1.dc2ec8p-19f));
    p = v_fma(p, t, v_set(0x1.0b6b08p-15f));
    p = v_fma(p, t, v_set(-0x1.06b8ap-13f));
    p = v_fma(p, t, v_set(-0x1.47e88ep-12f));
    p = v_fma(p, t, v_set(0x1.df08cap-8f));
    p = v_fma(p, t, v_set(-0x1.af74f8p-5f));
    p = v_fma(p, t, v_set(-0x1.d62c3ap-2f));
    p = v_fma(p, t, v_set(-0x1.26af4p+0f));
    p = v_fma(p, t, v_set(-0x1.fffffcp-1f));
    const vf n = v_round(p);
    const vf fraction = v_mul(v_sub(p, n), v_set(0x1.62e43p-1f));
    const vf tail = v_ldexp(v_exp_reduced(fraction), n);
    return v_fnma(t, tail, v_max(v_set(0.0f), x));
}

/* The same within 8.7e-5, in half the instructions: t Q(t) as a polynomial of degree 9 that is 0 at
 * 0 and at 4.4, where it ends (minimax). */
static inline vf v_gelu_near(vf x) {
    const vf t = v_min(v_set(4.4f), v_abs(x));
    vf p = v_set(-0x1.6ef56cp-16f);
    p = v_fma(p, t, v_set(0x1.ef070cp-13f));
    p = v_fma(p, t, v_set(-0x1.24e6b4p-12f));
    p = v_fma(p, t, v_set(-0x1.789de8p-8f));
    p = v_fma(p, t, v_set(0x1.b58580p-6f));
    p = v_fma(p, t, v_set(-0x1.ba46aap-6f));
    p = v_fma(p, t, v_set(-0x1.ee6e98p-5f));
    p = v_fma(p, t, v_set(0x1.cf418ep-4f));
    return v_fnma(v_mul(t, v_sub(v_set(4.4f), t)), p, v_max(v_set(0.0f), x));
}

/* 1 / (1 + e^-x), at most 3 ulp off above -87; below that it underflows to 0. */
static inline vf v_sigmoid(vf x) {
    const vf e = v_exp(v_sub(v_set(0.0f), x));
    return v_div(v_set(1.0f), v_add(v_set(1.0f), e));
}

/* Near zero an odd polynomial in x (error 5.7e-9), elsewhere 1 - 2 / (e^2|x| + 1), where
 * nothing cancels. At most 2 ulp off. */
static inline vf v_tanh(vf x) {
    const vf a = v_abs(x), z = v_mul(x, x);
    vf p = v_set(-0x1.6e69a8p-8f);
    p = v_fma(p, z, v_set(0x1.50820cp-6f));
    p = v_fma(p, z, v_set(-0x1.b7fd5p-5f));
    p = v_fma(p, z, v_set(0x1.110552p-3f));
    p = v_fma(p, z, v_set(-0x1.55552ap-2f));
    const vf small = v_fma(v_mul(p, z), x, x);
    const vf e = v_exp(v_add(a, a));
    const vf large = v_sub(v_set(1.0f), v_div(v_set(2.0f), v_add(e, v_set(1.0f))));
    return v_select(v_less(a, v_set(0.625f)), small, v_copysign(large, x));
}

#endif
