/* SPDX-License-Identifier: MIT
 *
 * Power spectrum of 400-point windows, written once for any vector (include a vec_*.h
 * first): each lane carries one frame, so butterflies need no shuffles and a frame's bits do
 * not depend on its neighbours.
 *
 * 400 = 16 * 25 with coprime factors, so that the prime-factor mapping (Good 1958; Burrus 1977)
 *     n = (25 n1 + 16 n2) mod 400,   k1 = k mod 16,   k2 = k mod 25
 * turns the transform into 25 real ones of 16 and then, for k1 = 0..8, complex ones of 25
 * (5 * 5) with no twiddle factors in between; the other bins are conjugates. The usual way, a
 * complex transform of 200 and a last step that separates k from 200 - k, costs as much and
 * leaks rounding errors of the strong low bins of speech into its weak high ones.
 */

typedef struct vc {
    vf re, im;
} vc;

enum {
    FFT_WINDOW = 400,
    FFT_BINS = 201,
    FFT_ROW = 9,                   /* complex vectors for one n2: k1 = 0..8 */
    FFT_VECTORS = 2 * FFT_ROW * 25 /* of the array that everything is done in */
};

/* cos and sin of 2 pi j / 25 */
static const float fft_root25[17][2] = {
    {1.0f, 0.0f},
    {0.96858317f, 0.24868989f},
    {0.87630665f, 0.48175368f},
    {0.7289686f, 0.6845471f},
    {0.5358268f, 0.8443279f},
    {0.309017f, 0.95105654f},
    {0.06279052f, 0.9980267f},
    {-0.18738131f, 0.9822872f},
    {-0.42577928f, 0.90482706f},
    {-0.637424f, 0.77051324f},
    {-0.809017f, 0.58778524f},
    {-0.9297765f, 0.36812454f},
    {-0.9921147f, 0.12533323f},
    {-0.9921147f, -0.12533323f},
    {-0.9297765f, -0.36812454f},
    {-0.809017f, -0.58778524f},
    {-0.637424f, -0.77051324f},
};

static inline vc c_add(vc a, vc b) {
    return (vc){v_add(a.re, b.re), v_add(a.im, b.im)};
}
static inline vc c_sub(vc a, vc b) {
    return (vc){v_sub(a.re, b.re), v_sub(a.im, b.im)};
}
/* a - i b and a + i b */
static inline vc c_sub_i(vc a, vc b) {
    return (vc){v_add(a.re, b.im), v_sub(a.im, b.re)};
}
static inline vc c_add_i(vc a, vc b) {
    return (vc){v_sub(a.re, b.im), v_add(a.im, b.re)};
}
/* a * (w[0] - i w[1]) */
static inline vc c_turn(vc a, const float w[2]) {
    const vf c = v_set(w[0]), s = v_set(w[1]);
    return (vc){v_fma(a.im, s, v_mul(a.re, c)), v_fnma(a.re, s, v_mul(a.im, c))};
}
static inline vc c_load(const float *z, int i) {
    return (vc){v_load(z + 2 * i * VF_LANES), v_load(z + (2 * i + 1) * VF_LANES)};
}
static inline void c_store(float *z, int i, vf re, vf im) {
    v_store(z + 2 * i * VF_LANES, re);
    v_store(z + (2 * i + 1) * VF_LANES, im);
}

/* X[0], X[2], X[4], X[6], X[8] of the real DFT of 16: a DFT of 8 over a[j] = x[j] + x[j+8] */
static inline void fft16_even(float *z, const vf a[8]) {
    const vf p0 = v_add(a[0], a[4]), p1 = v_add(a[1], a[5]);
    const vf p2 = v_add(a[2], a[6]), p3 = v_add(a[3], a[7]);
    const vf q0 = v_sub(a[0], a[4]), q1 = v_sub(a[1], a[5]);
    const vf q2 = v_sub(a[2], a[6]), q3 = v_sub(a[3], a[7]);
    const vf p02 = v_add(p0, p2), p13 = v_add(p1, p3), zero = v_set(0.0f);
    const vf re = v_mul(v_set(0.70710678f), v_sub(q1, q3));
    const vf im = v_mul(v_set(-0.70710678f), v_add(q1, q3));
    c_store(z, 0, v_add(p02, p13), zero);
    c_store(z, 2, v_add(q0, re), v_sub(im, q2));
    c_store(z, 4, v_sub(p0, p2), v_sub(p3, p1));
    c_store(z, 6, v_sub(q0, re), v_add(im, q2));
    c_store(z, 8, v_sub(p02, p13), zero);
}

/* X[1], X[3], X[5], X[7] from b[j] = x[j] - x[j+8]. W^(8-j) = -conj W^j pairs j with 8 - j:
 * differences carry the cosines, sums the sines. */
static inline void fft16_odd(float *z, const vf b[8]) {
    const vf h = v_set(0.70710678f), c = v_set(0.92387953f), s = v_set(0.38268343f);
    const vf d1 = v_sub(b[1], b[7]), d2 = v_sub(b[2], b[6]), d3 = v_sub(b[3], b[5]);
    const vf s1 = v_add(b[1], b[7]), s2 = v_add(b[2], b[6]), s3 = v_add(b[3], b[5]);
    const vf u = v_fma(h, d2, b[0]), v = v_fnma(h, d2, b[0]);
    const vf m1 = v_fma(c, d1, v_mul(s, d3)), m2 = v_fnma(c, d3, v_mul(s, d1));
    const vf y = v_fma(h, s2, b[4]), w = v_sub(v_mul(h, s2), b[4]);
    const vf n1 = v_fnma(s, s1, v_mul(v_set(-0.92387953f), s3));
    const vf n2 = v_fnma(c, s1, v_mul(s, s3));
    c_store(z, 1, v_add(u, m1), v_sub(n1, y));
    c_store(z, 3, v_add(v, m2), v_sub(n2, w));
    c_store(z, 5, v_sub(v, m2), v_add(n2, w));
    c_store(z, 7, v_sub(u, m1), v_add(n1, y));
}

/* Real DFT of 16: 16 vectors at z become 9 complex ones at z. */
static inline void fft16(float *z) {
    vf a[8], b[8];
    for (int j = 0; j < 8; j++) {
        const vf x = v_load(z + j * VF_LANES), y = v_load(z + (j + 8) * VF_LANES);
        a[j] = v_add(x, y);
        b[j] = v_sub(x, y);
    }
    fft16_even(z, a);
    fft16_odd(z, b);
}

/* DFT of 5 in registers (Winograd's real factors, without his extra additions) */
static inline void fft5(vc x[5]) {
    const vf c1 = v_set(0.30901699f), c2 = v_set(-0.80901699f);
    const vf s1 = v_set(0.95105652f), s2 = v_set(0.58778525f);
    const vc p = c_add(x[1], x[4]), q = c_add(x[2], x[3]);
    const vc r = c_sub(x[1], x[4]), s = c_sub(x[2], x[3]);
    const vc a = {v_fma(c2, q.re, v_fma(c1, p.re, x[0].re)),
                  v_fma(c2, q.im, v_fma(c1, p.im, x[0].im))};
    const vc b = {v_fma(c1, q.re, v_fma(c2, p.re, x[0].re)),
                  v_fma(c1, q.im, v_fma(c2, p.im, x[0].im))};
    const vc u = {v_fma(s2, s.re, v_mul(s1, r.re)), v_fma(s2, s.im, v_mul(s1, r.im))};
    const vc w = {v_fnma(s1, s.re, v_mul(s2, r.re)), v_fnma(s1, s.im, v_mul(s2, r.im))};
    x[0] = c_add(x[0], c_add(p, q));
    x[1] = c_sub_i(a, u);
    x[4] = c_add_i(a, u);
    x[2] = c_sub_i(b, w);
    x[3] = c_add_i(b, w);
}

/* DFT of 25 over z[0], z[FFT_ROW], ..., in place; output k2 ends in place 5 (k2 % 5) + k2 / 5 */
static inline void fft25(float *z) {
    vc x[5];
    for (int m = 0; m < 5; m++) {
        for (int i = 0; i < 5; i++) x[i] = c_load(z, FFT_ROW * (5 * i + m));
        fft5(x);
        for (int i = 0; i < 5; i++) {
            if (m && i) x[i] = c_turn(x[i], fft_root25[m * i]);
            c_store(z, FFT_ROW * (5 * i + m), x[i].re, x[i].im);
        }
    }
    for (int m = 0; m < 5; m++) {
        for (int i = 0; i < 5; i++) x[i] = c_load(z, FFT_ROW * (5 * m + i));
        fft5(x);
        for (int i = 0; i < 5; i++) c_store(z, FFT_ROW * (5 * m + i), x[i].re, x[i].im);
    }
}

/* Which vector takes sample n, and which complex vector holds bin k (or its conjugate). */
typedef struct fft_order {
    uint16_t in[FFT_WINDOW], out[FFT_BINS];
} fft_order;

static void fft_order_init(fft_order *order) {
    for (int n = 0; n < FFT_WINDOW; n++) /* 25 * 9 = 1 mod 16 and 16 * 11 = 1 mod 25 */
        order->in[n] = (uint16_t)(2 * FFT_ROW * (11 * n % 25) + 9 * n % 16);
    for (int k = 0; k < FFT_BINS; k++) {
        int k1 = k % 16, k2 = k % 25;
        if (k1 > 8) {
            k1 = 16 - k1;
            k2 = (25 - k2) % 25;
        }
        order->out[k] = (uint16_t)(FFT_ROW * (5 * (k2 % 5) + k2 / 5) + k1);
    }
}

/* z: windowed samples of VF_LANES frames (rows[lane]), one frame a lane */
static inline void fft_gather(const float *const rows[VF_LANES], const float *window,
                              const fft_order *order, float *z) {
    vf block[VF_LANES];
    for (int s = 0; s < FFT_WINDOW; s += VF_LANES) {
        const vf w = v_load(window + s);
        for (int l = 0; l < VF_LANES; l++) block[l] = v_mul(w, v_load(rows[l] + s));
        v_transpose(block);
        for (int i = 0; i < VF_LANES; i++) v_store(z + order->in[s + i] * VF_LANES, block[i]);
    }
}

/* the power spectra of the first n lanes as rows of out */
static inline void fft_scatter(const float *z, const fft_order *order, int n, float *out,
                               int64_t ldp) {
    vf block[VF_LANES];
    for (int k = 0; k < FFT_BINS; k += VF_LANES) {
        const int bins = FFT_BINS - k < VF_LANES ? FFT_BINS - k : VF_LANES;
        for (int i = 0; i < VF_LANES; i++) {
            const vc x = c_load(z, order->out[k + (i < bins ? i : 0)]);
            block[i] = v_fma(x.re, x.re, v_mul(x.im, x.im));
        }
        v_transpose(block);
        for (int l = 0; l < n; l++) {
            if (bins == VF_LANES)
                v_store(out + l * ldp + k, block[l]);
            else
                v_store_n(out + l * ldp + k, block[l], bins);
        }
    }
}

void VO_FN(stft400_power)(int64_t frames, const float *x, int64_t hop, const float *window,
                          float *power, int64_t ldp, float *scratch) {
    /* [FFT_VECTORS][VF_LANES], on cache lines of its own */
    float *z = scratch + (64 - (uintptr_t)scratch % 64) % 64 / sizeof(float);
    fft_order order;
    fft_order_init(&order);
    for (int64_t f = 0; f < frames; f += VF_LANES) {
        const int n = frames - f < VF_LANES ? (int)(frames - f) : VF_LANES;
        const float *rows[VF_LANES];
        for (int l = 0; l < VF_LANES; l++) rows[l] = x + (f + (l < n ? l : n - 1)) * hop;
        fft_gather(rows, window, &order, z);
        for (int i = 0; i < 25; i++) fft16(z + 2 * FFT_ROW * i * VF_LANES);
        for (int i = 0; i < FFT_ROW; i++) fft25(z + 2 * i * VF_LANES);
        fft_scatter(z, &order, n, power + f * ldp, ldp);
    }
}
