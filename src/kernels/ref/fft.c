/* SPDX-License-Identifier: MIT
 *
 * Power spectrum of 400-point windows in double precision: the definition of right. 400 =
 * 20 * 20 with n = 20 a + b and k = c + 20 d: twenty DFTs of length 20 over a, a turn by
 * b c / 400, and the sum over b for the bins wanted.
 */
#include <math.h>

#include "kernels/kernels.h"

enum { N = 400, SIDE = 20, BINS = 201 };

typedef struct complex_pair {
    double re, im;
} complex_pair;

/* root[j] = e^(-2 pi i j / 400) */
static void fill_roots(complex_pair *root) {
    const double step = 6.283185307179586476925 / N;
    for (int j = 0; j < N; j++) root[j] = (complex_pair){cos(step * j), -sin(step * j)};
}

static complex_pair turn(complex_pair a, complex_pair w) {
    return (complex_pair){a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re};
}

/* mid[c][b] = e^(-2 pi i b c / 400) sum over a of x[20 a + b] e^(-2 pi i a c / 20) */
static void columns(const float *x, const float *window, const complex_pair *root,
                    complex_pair mid[SIDE][SIDE]) {
    for (int b = 0; b < SIDE; b++) {
        double column[SIDE];
        for (int a = 0; a < SIDE; a++)
            column[a] = (double)window[SIDE * a + b] * (double)x[SIDE * a + b];
        for (int c = 0; c < SIDE; c++) {
            complex_pair sum = {0, 0};
            for (int a = 0; a < SIDE; a++) {
                const complex_pair w = root[a * c % SIDE * SIDE];
                sum.re += column[a] * w.re;
                sum.im += column[a] * w.im;
            }
            mid[c][b] = turn(sum, root[b * c]);
        }
    }
}

void vo_ref_stft400_power(int64_t frames, const float *x, int64_t hop, const float *window,
                          float *power, int64_t ldp, float *scratch) {
    (void)scratch;
    complex_pair root[N], mid[SIDE][SIDE];
    fill_roots(root);
    for (int64_t f = 0; f < frames; f++) {
        columns(x + f * hop, window, root, mid);
        for (int k = 0; k < BINS; k++) {
            complex_pair sum = {0, 0};
            for (int b = 0; b < SIDE; b++) {
                const complex_pair t = turn(mid[k % SIDE][b], root[b * (k / SIDE) % SIDE * SIDE]);
                sum.re += t.re;
                sum.im += t.im;
            }
            power[f * ldp + k] = (float)(sum.re * sum.re + sum.im * sum.im);
        }
    }
}
