/* SPDX-License-Identifier: MIT
 *
 * Speculation changes how many steps are taken and nothing else: whatever is proposed, the result
 * is that of plain decoding, and samples are distributed as softmax says.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "decode/speculate.h"
#include "decode/support_toy.h"

enum { VOCAB = 100, EOT = 60, TIMES = 70, ROWS = 5, LENGTH = 48, N_PROMPT = 4, SEEDS = 40 };
static const int32_t prompt[N_PROMPT] = {61, 5, 17, 62};

static toy_params params_of(uint64_t seed) {
    return (toy_params){.seed = seed,
                        .n_vocab = VOCAB,
                        .scale = 8.0f,
                        .eot = EOT,
                        .eot_bias = -3.0f,
                        .eot_slope = 0.25f,
                        .special_begin = TIMES,
                        .special_bias = 1.0f};
}

/* ---- sources -------------------------------------------------------------------------------- */

typedef enum kind {
    RANDOM,
    WRONG,
    RIGHT,
    ENDS,
    TIMESTAMPS,
    OUTSIDE,
    NOTHING,
    MIXED,
    REPEATS,
    N_KINDS
} kind;

/* Knows what plain decoding chose. */
typedef struct source {
    kind kind;
    const int32_t *right; /* [n_right], of the chosen tokens */
    int n_right;
    uint64_t state;
    int calls, largest; /* `most` at the most */
} source;

static uint32_t next_random(source *s) {
    s->state = s->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(s->state >> 33);
}

static int32_t right_at(const source *s, int i) {
    return i < s->n_right ? s->right[i] : EOT;
}

static vo_status propose(void *self, const vo_decode_params *params, const int32_t *tokens, int n,
                         int begin, int32_t *out, int most, int *count, vo_error *err) {
    static const int32_t outside[4] = {-1, VOCAB, INT32_MAX, INT32_MIN};
    source *s = self;
    s->calls++;
    if (most > s->largest) s->largest = most;
    assert_true(most >= 1 && n + most <= LENGTH && begin == N_PROMPT && n > begin);
    assert_memory_equal(tokens, prompt, sizeof prompt);
    *count = s->kind == NOTHING ? 0 : most;
    for (int i = 0; i < *count; i++) {
        const int32_t right = right_at(s, n - begin + i);
        kind how = s->kind;
        if (how == MIXED) how = next_random(s) % 4 ? RIGHT : (kind)(next_random(s) % NOTHING);
        switch (how) {
        case WRONG:
            out[i] = right == 3 ? 4 : 3;
            break;
        case RIGHT:
            out[i] = right;
            break;
        case ENDS:
            out[i] = i % 2 ? EOT : right;
            break;
        case TIMESTAMPS:
            out[i] = TIMES + (int32_t)(next_random(s) % (VOCAB - TIMES));
            break;
        case OUTSIDE:
            out[i] = i == 0 ? right : outside[next_random(s) % 4];
            break;
        default:
            out[i] = (int32_t)(next_random(s) % VOCAB);
        }
    }
    return VO_OK;
}

/* ---- a decoding ----------------------------------------------------------------------------- */

typedef struct fixture {
    toy *model;
    vo_decoder *decoder;
    vo_decode_params params;
    vo_decode_result result;
    vo_error err;
} fixture;

static void open_toy(fixture *f, uint64_t seed) {
    vo_decoder_destroy(f->decoder);
    toy_destroy(f->model);
    f->model = toy_create(params_of(seed), ROWS, LENGTH);
    f->decoder = vo_decoder_create(&f->model->lm, &f->err);
    assert_non_null(f->decoder);
}

static int set_up(void **state) {
    static fixture f;
    f = (fixture){.params = vo_decode_default_params()};
    f.params.eot = EOT;
    open_toy(&f, 77);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    vo_decoder_destroy(f->decoder);
    toy_destroy(f->model);
    return 0;
}

typedef struct kept {
    char text[8192];
    int32_t tokens[LENGTH + 1];
    int n, steps;
} kept;

static void decode(fixture *f, vo_speculator *speculator, kept *out) {
    vo_buf buf = {0};
    toy_reset(f->model, prompt, 2);
    f->err = (vo_error){0};
    f->params.speculator = speculator;
    if (vo_decode(f->decoder, prompt, N_PROMPT, 2, &f->params, &f->result, &f->err) != VO_OK)
        fail_msg("%s", f->err.message);
    const vo_decode_result *r = &f->result;
    for (int i = 0; i < r->n_tokens; i++)
        vo_buf_printf(&buf, "%d:%a ", r->tokens[i], (double)r->logprobs[i]);
    vo_buf_printf(&buf, "%d %a %a", r->ended, r->sum_logprob, r->avg_logprob);
    assert_true(!buf.failed && buf.size < sizeof out->text);
    memcpy(out->text, buf.data, buf.size + 1);
    memcpy(out->tokens, r->tokens, (size_t)r->n_tokens * sizeof *r->tokens);
    out->n = r->n_tokens;
    out->steps = r->steps;
    vo_buf_free(&buf);
    assert_true(r->n_accepted <= r->n_proposed);
    assert_int_equal(f->model->forks, 0);
}

/* All sources against plain decoding, with what f->params says. */
static void compare_all(fixture *f, uint64_t seed) {
    static kept plain, ahead;
    decode(f, NULL, &plain);
    assert_int_equal(f->result.n_proposed, 0);
    for (kind k = 0; k < N_KINDS; k++) {
        source s = {k, plain.tokens, plain.n, seed * 31 + k, 0, 0};
        vo_proposer from = k == REPEATS ? vo_propose_repeats() : (vo_proposer){&s, propose};
        vo_speculator speculator = vo_speculator_make(from, TOY_AHEAD, false);
        decode(f, &speculator, &ahead);
        assert_string_equal(ahead.text, plain.text);
        assert_true(ahead.steps <= plain.steps);
        if (k == WRONG || k == NOTHING) assert_int_equal(ahead.steps, plain.steps);
        if (k == WRONG) assert_int_equal(f->result.n_accepted, 0);
        if (k == RIGHT) assert_int_equal(f->result.n_accepted, f->result.n_proposed);
        if (k == RIGHT && plain.n > 8) assert_true(ahead.steps < plain.steps / 2);
        /* the row goes on from the prompt */
        assert_true(f->model->rows[0].length >= N_PROMPT);
        assert_memory_equal(f->model->rows[0].tokens, prompt, sizeof prompt);
    }
}

static void test_greedy_is_the_same_whatever_is_proposed(void **state) {
    fixture *f = *state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        open_toy(f, seed);
        compare_all(f, seed);
    }
}

static void test_samples_are_the_same_whatever_is_proposed(void **state) {
    fixture *f = *state;
    f->params.temperature = 0.8f;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        f->params.seed = seed;
        compare_all(f, seed);
    }
}

static void test_filters_see_what_plain_decoding_shows_them(void **state) {
    fixture *f = *state;
    static const int32_t ids[3] = {1, 2, 3};
    vo_suppress_filter first = {.ids = ids, .n_ids = 3, .first_only = true},
                       always = {.ids = ids, .n_ids = 1};
    vo_timestamp_filter times = {EOT, TIMES - 1, TIMES, 4};
    vo_logit_filter filters[3] = {vo_filter_suppress(&first), vo_filter_suppress(&always),
                                  vo_filter_timestamps(&times)};
    f->params.filters = filters;
    f->params.n_filters = 3;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        open_toy(f, seed);
        f->params.temperature = seed % 2 ? 0.7f : 0.0f;
        compare_all(f, seed);
    }
}

static void test_limits_hold(void **state) {
    fixture *f = *state;
    toy_params endless = params_of(5);
    endless.eot_bias = -100.0f;
    endless.eot_slope = 0;
    vo_decoder_destroy(f->decoder);
    toy_destroy(f->model);
    f->model = toy_create(endless, ROWS, LENGTH);
    f->decoder = vo_decoder_create(&f->model->lm, &f->err);
    for (int most = 1; most <= LENGTH; most++) { /* at the end the row is full */
        static kept out;
        const int room = LENGTH + 1 - N_PROMPT, want = most < room ? most : room;
        f->params.max_tokens = most;
        compare_all(f, (uint64_t)most);
        decode(f, NULL, &out);
        assert_int_equal(out.n, want);
    }
}

/* Nothing is possible once a row has 9 tokens. */
static void spoil(void *user, const toy_row *row, float *logits, int n_vocab) {
    for (int i = 0; row->length == 9 && i < n_vocab; i++) logits[i] = i % 2 ? NAN : -INFINITY;
}

static void test_a_row_without_any_token_ends(void **state) {
    fixture *f = *state;
    f->model->params.eot_bias = -50.0f;
    f->model->edit = spoil;
    compare_all(f, 1);
    assert_true(f->result.ended && f->result.sum_logprob == -INFINITY);
    assert_int_equal(f->result.n_tokens, 9 - N_PROMPT);
}

/* ---- distribution --------------------------------------------------------------------------- */

enum { SMALL = 6, SMALL_EOT = 5, DRAWS = 40000, CELLS = (SMALL - 1) * SMALL + 1 };

/* What is proposed depends on what came before, and changes from call to call. */
static vo_status propose_small(void *self, const vo_decode_params *params, const int32_t *tokens,
                               int n, int begin, int32_t *out, int most, int *count,
                               vo_error *err) {
    source *s = self;
    for (int i = 0; i < most; i++)
        out[i] = (int32_t)((next_random(s) % 3 + (uint32_t)tokens[n - 1]) % (SMALL - 1));
    *count = most;
    return VO_OK;
}

static void softmax(const toy *model, const int32_t *tokens, int n, double temperature,
                    double *p /* [SMALL] */) {
    float logits[SMALL];
    toy_reset((toy *)(uintptr_t)model, tokens, n);
    toy_logits(model, &model->rows[0], n, logits);
    double sum = 0;
    for (int i = 0; i < SMALL; i++) sum += p[i] = exp((double)logits[i] / temperature);
    for (int i = 0; i < SMALL; i++) p[i] /= sum;
}

/* The second and third of three tokens are verified proposals; the first is given. */
static void test_samples_are_distributed_as_softmax(void **state) {
    toy_params small = {
        .seed = 8, .n_vocab = SMALL, .scale = 2.0f, .eot = SMALL_EOT, .special_begin = SMALL};
    static const int32_t not_first[SMALL - 1] = {0, 1, 3, 4, 5};
    const vo_suppress_filter only = {not_first, SMALL - 1, true};
    const vo_logit_filter filter = vo_filter_suppress(&only);
    vo_error err = {0};
    toy *model = toy_create(small, 1, 16);
    vo_decoder *decoder = vo_decoder_create(&model->lm, &err);
    assert_non_null(decoder);
    vo_decode_params p = vo_decode_default_params();
    p.eot = SMALL_EOT;
    p.temperature = 0.7f;
    p.max_tokens = 3;
    p.filters = &filter;
    p.n_filters = 1;
    source s = {.state = 99};
    int counts[CELLS] = {0}, accepted = 0, proposed = 0;
    const int32_t start = 1;
    for (int i = 0; i < DRAWS; i++) {
        vo_speculator speculator = vo_speculator_make((vo_proposer){&s, propose_small}, 2, false);
        vo_decode_result r;
        p.seed = (uint64_t)i;
        p.speculator = &speculator;
        toy_reset(model, NULL, 0);
        assert_int_equal(vo_decode(decoder, &start, 1, 0, &p, &r, &err), VO_OK);
        assert_int_equal(r.tokens[0], 2);
        accepted += r.n_accepted;
        proposed += r.n_proposed;
        const int32_t second = r.n_tokens > 1 ? r.tokens[1] : SMALL_EOT,
                      third = r.n_tokens > 2 ? r.tokens[2] : SMALL_EOT;
        counts[second == SMALL_EOT ? CELLS - 1 : second * SMALL + third]++;
    }
    assert_true(proposed >= DRAWS && accepted > DRAWS / 10 && accepted < proposed / 2);
    double second[SMALL], third[SMALL], chi = 0;
    softmax(model, (int32_t[]){1, 2}, 2, 0.7, second);
    for (int a = 0; a < SMALL; a++) {
        softmax(model, (int32_t[]){1, 2, a}, 3, 0.7, third);
        for (int b = 0; b < (a == SMALL_EOT ? 1 : SMALL); b++) {
            const double want = DRAWS * second[a] * (a == SMALL_EOT ? 1 : third[b]);
            const double off = counts[a == SMALL_EOT ? CELLS - 1 : a * SMALL + b] - want;
            assert_true(want > 20);
            chi += off * off / want;
        }
    }
    /* 30 degrees of freedom: once in a thousand true ones is larger than 59.7 */
    if (chi > 59.7) fail_msg("chi-square %.1f", chi);
    vo_decoder_destroy(decoder);
    toy_destroy(model);
}

/* ---- when ----------------------------------------------------------------------------------- */

static void test_several_sequences_take_plain_steps(void **state) {
    fixture *f = *state;
    source s = {.kind = RANDOM};
    vo_speculator speculator = vo_speculator_make((vo_proposer){&s, propose}, TOY_AHEAD, false);
    f->params.speculator = &speculator;
    for (int beam = 0; beam < 2; beam++) {
        f->params.beam_size = beam ? ROWS : 1;
        f->params.temperature = beam ? 0.0f : 1.0f;
        f->params.best_of = beam ? 1 : 2;
        toy_reset(f->model, prompt, 0);
        assert_int_equal(
            vo_decode(f->decoder, prompt, N_PROMPT, 0, &f->params, &f->result, &f->err), VO_OK);
    }
    assert_int_equal(s.calls, 0);
}

static void test_the_number_adapts_within_bounds(void **state) {
    vo_speculator s = vo_speculator_make(vo_propose_repeats(), 6, false);
    const int first = s.ahead;
    assert_true(first >= 1 && first <= 6);
    vo_speculator_learn(&s, first, first);
    assert_true(s.ahead > first);
    for (int i = 0; i < 20; i++) vo_speculator_learn(&s, s.ahead, s.ahead);
    assert_int_equal(s.ahead, 6);
    vo_speculator_learn(&s, 6, 5);
    assert_true(s.ahead < 6);
    for (int i = 0; i < 20; i++) vo_speculator_learn(&s, s.ahead, 0);
    assert_int_equal(s.ahead, 1);
    s = vo_speculator_make(vo_propose_repeats(), 1, false);
    assert_int_equal(s.ahead, 1);

    fixture *f = *state;
    static kept out;
    source all = {.kind = NOTHING};
    s = vo_speculator_make((vo_proposer){&all, propose}, 3, false);
    decode(f, &s, &out);
    assert_int_equal(all.largest, 3);
}

static void test_automatic_goes_on_with_what_was_faster(void **state) {
    for (int ahead_is_faster = 0; ahead_is_faster < 2; ahead_is_faster++) {
        vo_speculator s = vo_speculator_make(vo_propose_repeats(), 4, true);
        int used = 0;
        for (int i = 0; i < 160; i++) {
            const bool on = vo_speculator_wanted(&s);
            if (i < 2) assert_int_equal(on, i == 1); /* one of each first */
            used += on;
            vo_speculator_took(&s, on, (on == ahead_is_faster ? 1.0 : 1.5) * (10 + i % 7),
                               10 + i % 7);
        }
        assert_true(ahead_is_faster ? used > 140 && used < 160 : used > 1 && used < 20);
    }
    vo_speculator s = vo_speculator_make(vo_propose_repeats(), 4, false);
    vo_speculator_took(&s, true, 1e9, 1);
    assert_true(vo_speculator_wanted(&s));
}

/* ---- sources of the library ----------------------------------------------------------------- */

static void expect_repeats(const int32_t *tokens, int n, int most, const int32_t *want,
                           int n_want) {
    int32_t out[16];
    int count = -1;
    vo_error err = {0};
    const vo_proposer p = vo_propose_repeats();
    assert_int_equal(p.propose(p.self, NULL, tokens, n, 0, out, most, &count, &err), VO_OK);
    assert_int_equal(count, n_want);
    if (n_want) assert_memory_equal(out, want, (size_t)n_want * sizeof *want);
}
#define TOKENS(...) (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / 4

static void test_repeats_are_found(void **state) {
    expect_repeats(TOKENS(1, 2, 3, 4, 1, 2), 8, TOKENS(3, 4, 1, 2));
    expect_repeats(TOKENS(1, 2, 3, 4, 1, 2), 1, TOKENS(3));
    /* the longest, then the latest */
    expect_repeats(TOKENS(9, 1, 2, 5, 8, 1, 2, 6, 9, 1, 2), 1, TOKENS(5));
    expect_repeats(TOKENS(9, 1, 2, 5, 9, 1, 2, 6, 9, 1, 2), 1, TOKENS(6));
    expect_repeats(TOKENS(7, 7, 7, 7), 4, TOKENS(7));
    /* one token is not enough, and there may be nothing */
    expect_repeats(TOKENS(2, 3, 4, 1, 2), 8, NULL, 0);
    expect_repeats(TOKENS(1, 2, 3), 8, NULL, 0);
    expect_repeats(TOKENS(1), 8, NULL, 0);
}

/* A draft that is sometimes right, in a cache of its own that checks every use. */
static void test_a_draft_model_keeps_up(void **state) {
    fixture *f = *state;
    static kept plain, ahead;
    int partly = 0;
    const vo_timestamp_filter times = {EOT, TIMES - 1, TIMES, 4};
    const vo_logit_filter filter = vo_filter_timestamps(&times);
    f->params.filters = &filter;
    f->params.n_filters = 1;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const bool same = seed % 4 == 0;
        open_toy(f, seed);
        decode(f, NULL, &plain);
        toy_params other = params_of(seed);
        if (!same) other.scale = 0.5f, other.special_bias = 3.0f;
        toy *small = toy_create(other, 1, seed % 3 == 2 ? N_PROMPT + 9 : LENGTH);
        vo_draft draft;
        assert_int_equal(vo_draft_init(&draft, &small->lm, &f->err), VO_OK);
        vo_speculator s = vo_speculator_make(vo_propose_draft(&draft), TOY_AHEAD, false);
        for (int again = 0; again < 2; again++) {
            decode(f, &s, &ahead);
            assert_string_equal(ahead.text, plain.text);
            assert_true(f->result.n_proposed > 0);
            if (same) assert_int_equal(f->result.n_accepted, f->result.n_proposed);
            partly += f->result.n_accepted > 0 && f->result.n_accepted < f->result.n_proposed;
            assert_int_equal(draft.n, small->rows[0].length);
            assert_memory_equal(small->rows[0].tokens, draft.tokens,
                                (size_t)draft.n * sizeof *draft.tokens);
        }
        assert_int_equal(vo_draft_reset(&draft, &f->err), VO_OK);
        assert_int_equal(small->rows[0].length, 0);
        vo_draft_free(&draft);
        toy_destroy(small);
    }
    assert_true(partly > 5);
}

static void test_errors_are_passed_on(void **state) {
    fixture *f = *state;
    toy *small = toy_create(params_of(77), 1, LENGTH);
    vo_draft draft;
    assert_int_equal(vo_draft_init(&draft, &small->lm, &f->err), VO_OK);
    for (int broken = 0; broken < 2; broken++)
        for (int at = 1; at < 3; at++) {
            vo_speculator s = vo_speculator_make(vo_propose_draft(&draft), 2, false);
            toy_reset(small, NULL, 0);
            toy_reset(f->model, prompt, 0);
            assert_int_equal(vo_draft_reset(&draft, &f->err), VO_OK);
            if (broken)
                small->fail_at = at;
            else
                f->model->fail_at = at;
            f->params.speculator = &s;
            f->err = (vo_error){0};
            assert_int_equal(
                vo_decode(f->decoder, prompt, N_PROMPT, 0, &f->params, &f->result, &f->err),
                VO_ERR_IO);
            assert_int_equal(f->result.n_tokens, 0);
        }
    /* and the next decoding is right */
    static kept plain, ahead;
    small->fail_at = -1;
    assert_int_equal(vo_draft_reset(&draft, &f->err), VO_OK);
    decode(f, NULL, &plain);
    vo_speculator s = vo_speculator_make(vo_propose_draft(&draft), 2, false);
    decode(f, &s, &ahead);
    assert_string_equal(ahead.text, plain.text);
    vo_draft_free(&draft);
    toy_destroy(small);

    vo_lm lm = f->model->lm;
    lm.rewind = NULL;
    assert_null(vo_decoder_create(&lm, &f->err));
}

static void test_speculation_allocates_nothing(void **state) {
    fixture *f = *state;
    toy *small = toy_create(params_of(78), 1, LENGTH);
    vo_draft draft;
    assert_int_equal(vo_draft_init(&draft, &small->lm, &f->err), VO_OK);
    vo_speculator s = vo_speculator_make(vo_propose_draft(&draft), TOY_AHEAD, false);
    f->params.speculator = &s;
    const uint64_t before = vo_memory_get_stats().allocations;
    toy_reset(f->model, prompt, 0);
    assert_int_equal(vo_decode(f->decoder, prompt, N_PROMPT, 0, &f->params, &f->result, &f->err),
                     VO_OK);
    assert_int_equal(vo_memory_get_stats().allocations, before);
    vo_draft_free(&draft);
    toy_destroy(small);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_greedy_is_the_same_whatever_is_proposed),
        TEST(test_samples_are_the_same_whatever_is_proposed),
        TEST(test_filters_see_what_plain_decoding_shows_them),
        TEST(test_limits_hold),
        TEST(test_a_row_without_any_token_ends),
        TEST(test_samples_are_distributed_as_softmax),
        TEST(test_several_sequences_take_plain_steps),
        TEST(test_the_number_adapts_within_bounds),
        TEST(test_automatic_goes_on_with_what_was_faster),
        TEST(test_repeats_are_found),
        TEST(test_a_draft_model_keeps_up),
        TEST(test_errors_are_passed_on),
        TEST(test_speculation_allocates_nothing),
    };
    return cmocka_run_group_tests_name("speculate", tests, NULL, NULL);
}
