/* SPDX-License-Identifier: MIT
 *
 * The same input gives the same numbers: for any number of threads and for any company of rows
 * bit for bit, and for every instruction set at least the same ids. Real weights (Whisper base).
 */
#include "models/support_real.h"

#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { MAX_IDS = 512, ROWS = 6 };
static const int32_t prompt[] = {50258, 50259, 50359, 50364, 400, 370};
enum { N_PROMPT = sizeof prompt / sizeof prompt[0] };

/* All that one engine makes of the Kennedy clip. */
typedef struct outcome {
    float *audio, *logits; /* [n_audio_ctx][d], [n_vocab] */
    size_t audio_bytes, logits_bytes;
    int n_vocab, n_greedy, n_beam;
    int32_t greedy[MAX_IDS], beam[MAX_IDS];
} outcome;

static void *copy(const void *data, size_t bytes) {
    void *out = vo_alloc(bytes);
    assert_non_null(out);
    memcpy(out, data, bytes);
    return out;
}

static int transcribe(vocis_session *session, const vo_audio *jfk, int beams, int32_t *ids) {
    vo_error err = {0};
    vocis_result *result = NULL;
    vocis_transcribe_params p = real_params(beams);
    p.language = "en";
    if (vo_transcribe(session, jfk->samples, jfk->n_samples, NULL, &p, &result, &err) != VO_OK)
        fail_msg("%s", err.message);
    int n = real_result_ids(result, ids, MAX_IDS);
    assert_true(n > 20);
    vo_result_destroy(result);
    return n;
}

/* beams: 0 leaves beam search out. */
static void make_outcome(int threads, const char *cpu, int beams, outcome *out) {
    vocis_engine *engine = real_engine(threads, cpu);
    assert_non_null(engine);
    vocis_session *session = real_session(engine, real_model("base"), beams ? beams : 1);
    assert_non_null(session);
    vo_audio jfk = real_audio(REAL_JFK);
    assert_non_null(jfk.samples);
    vo_error err = {0};
    float *const *logits;
    const vo_whisper_dims *dims = &session->model->whisper->dims;
    memset(out, 0, sizeof *out);
    real_encode(session, jfk.samples, jfk.n_samples);
    out->audio_bytes = (size_t)dims->n_audio_ctx * (size_t)dims->n_audio_state * sizeof(float);
    out->audio = copy(vo_whisper_audio(session->workers->state), out->audio_bytes);
    vo_lm *lm = &session->lanes[0].lm;
    assert_int_equal(lm->step(lm->self, &(vo_lm_input){0, N_PROMPT, prompt, 0}, 1, &logits, &err),
                     VO_OK);
    out->n_vocab = dims->n_vocab;
    out->logits_bytes = (size_t)dims->n_vocab * sizeof(float);
    out->logits = copy(logits[0], out->logits_bytes);
    out->n_greedy = transcribe(session, &jfk, 1, out->greedy);
    if (beams) out->n_beam = transcribe(session, &jfk, beams, out->beam);
    vo_audio_free(&jfk);
    real_session_destroy(session);
    real_engine_destroy(engine);
}

static void free_outcome(outcome *out) {
    vo_free(out->audio);
    vo_free(out->logits);
}

static void test_threads(void **state) {
    (void)state;
    if (!real_model("base")) skip();
    outcome one, other;
    make_outcome(1, getenv("VOCIS_CPU"), 5, &one);
    for (int threads = 2; threads <= 3; threads++) {
        make_outcome(threads, getenv("VOCIS_CPU"), 5, &other);
        assert_memory_equal(other.audio, one.audio, one.audio_bytes);
        assert_memory_equal(other.logits, one.logits, one.logits_bytes);
        real_assert_ids("greedy", other.greedy, other.n_greedy, one.greedy, one.n_greedy);
        real_assert_ids("beam 5", other.beam, other.n_beam, one.beam, one.n_beam);
        free_outcome(&other);
    }
    free_outcome(&one);
}

static void test_levels(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t flag;
    } levels[] = {{"avx2", VO_CPU_AVX2}, {"avx512", VO_CPU_AVX512}, {"neon", VO_CPU_NEON}};
    if (!real_model("base")) skip();
    outcome all, other;
    make_outcome(0, NULL, 0, &all);
    int compared = 0;
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (!(vo_cpu_detect() & levels[i].flag)) continue;
        make_outcome(0, levels[i].name, 0, &other);
        double worst = 0;
        for (int k = 0; k < all.n_vocab; k++)
            worst = fmax(worst, fabs((double)all.logits[k] - (double)other.logits[k]));
        printf("%s: logits within %.1e of the highest level\n", levels[i].name, worst);
        assert_true(worst <= 1e-3);
        real_assert_ids(levels[i].name, other.greedy, other.n_greedy, all.greedy, all.n_greedy);
        free_outcome(&other);
        compared++;
    }
    free_outcome(&all);
    if (!compared) skip();
}

/* ---- rows ------------------------------------------------------------------------------------ */

typedef struct rows {
    vocis_engine *engine;
    vocis_session *session; /* its model; the state below has two audio windows */
    vo_whisper_state *state;
    float *const *logits;
    size_t bytes; /* of one row's logits */
} rows;

static void step(rows *r, const vo_whisper_feed *feeds, int n) {
    vo_error err = {0};
    if (vo_whisper_step(r->state, feeds, n, &r->logits, &err) != VO_OK) fail_msg("%s", err.message);
}

static void rewind_row(rows *r, int row, int length) {
    vo_error err = {0};
    assert_int_equal(vo_kv_truncate(vo_whisper_cache(r->state), row, length, &err), VO_OK);
}

static void open_rows(rows *r) {
    vo_error err = {0};
    r->engine = real_engine(0, getenv("VOCIS_CPU"));
    r->session = real_session(r->engine, real_model("base"), 1);
    assert_non_null(r->session);
    vo_whisper *whisper = r->session->model->whisper;
    assert_int_equal(vo_whisper_state_create(whisper, &r->engine->runtime,
                                             (vo_whisper_state_params){.rows = ROWS, .windows = 2},
                                             &r->state, &err),
                     VO_OK);
    r->bytes = (size_t)whisper->dims.n_vocab * sizeof(float);
    vo_audio jfk = real_audio(REAL_JFK);
    assert_non_null(jfk.samples);
    for (int window = 0; window < 2; window++) {
        assert_int_equal(vo_mel_compute(r->session->model->mel, &r->engine->kernels,
                                        r->engine->pool, jfk.samples, jfk.n_samples,
                                        30 * VOCIS_SAMPLE_RATE - jfk.n_samples,
                                        vo_whisper_mel(r->state), &err),
                         VO_OK);
        assert_int_equal(vo_whisper_encode(r->state, window, &err), VO_OK);
    }
    vo_audio_free(&jfk);
}

static void close_rows(rows *r) {
    vo_whisper_state_destroy(r->state);
    real_session_destroy(r->session);
    real_engine_destroy(r->engine);
}

/* Rows with pasts of different lengths, over two audio windows: each alone, then all at once in
 * another order, then some of them. */
static void test_neighbours(void **state) {
    (void)state;
    if (!real_model("base")) skip();
    static const int32_t words[ROWS] = {452, 1029, 437, 291, 1941, 13};
    rows r;
    float *alone[ROWS];
    vo_whisper_feed feed[ROWS], mixed[ROWS];
    open_rows(&r);
    for (int i = 0; i < ROWS; i++) {
        int n = 3 + i % (N_PROMPT - 2); /* tokens before the one that is compared */
        step(&r, &(vo_whisper_feed){i, i % 2, n, prompt, 0}, 1);
        feed[i] = (vo_whisper_feed){i, i % 2, 1, &words[i], 0};
        step(&r, &feed[i], 1);
        alone[i] = copy(r.logits[0], r.bytes);
        rewind_row(&r, i, n);
    }
    for (int count = ROWS; count >= 2; count--) {
        for (int i = 0; i < count; i++) mixed[i] = feed[(5 * i + 1) % ROWS];
        step(&r, mixed, count);
        for (int i = 0; i < count; i++) {
            int row = mixed[i].row;
            assert_memory_equal(r.logits[i], alone[row], r.bytes);
            rewind_row(&r, row, 3 + row % (N_PROMPT - 2));
        }
    }
    for (int i = 0; i < ROWS; i++) vo_free(alone[i]);
    close_rows(&r);
}

/* A fork is the same as having been fed all of it; which audio window is used does not matter
 * when both hold the same audio; nor does what the cache held before. */
static void test_forks(void **state) {
    (void)state;
    if (!real_model("base")) skip();
    static const int32_t words[2] = {452, 1029};
    static const int parents[ROWS] = {0, 0, 0, 0, 0, 0};
    rows r;
    vo_error err = {0};
    open_rows(&r);
    step(&r, &(vo_whisper_feed){0, 0, N_PROMPT, prompt, 0}, 1);
    step(&r, &(vo_whisper_feed){0, 0, 1, &words[0], 0}, 1);
    step(&r, &(vo_whisper_feed){0, 0, 1, &words[1], 0}, 1);
    float *want = copy(r.logits[0], r.bytes);
    rewind_row(&r, 0, 0);
    step(&r, &(vo_whisper_feed){0, 1, N_PROMPT, prompt, 0}, 1);
    assert_int_equal(vo_kv_fork(vo_whisper_cache(r.state), 0, ROWS, parents, ROWS, &err), VO_OK);
    vo_whisper_feed feed[ROWS];
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < ROWS; i++) feed[i] = (vo_whisper_feed){i, 1, 1, &words[k], 0};
        step(&r, feed, ROWS);
    }
    for (int i = 0; i < ROWS; i++) assert_memory_equal(r.logits[i], want, r.bytes);
    vo_free(want);
    close_rows(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads), cmocka_unit_test(test_levels),
        cmocka_unit_test(test_neighbours), cmocka_unit_test(test_forks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
