/* SPDX-License-Identifier: MIT
 *
 * Decoding and the timestamp filter against openai-whisper's own classes
 * (tools/golden/decode.py): the same tokens, the same sums.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "decode/decode.h"
#include "decode/support_toy.h"

enum { MAX_IDS = 256 };

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("golden file without number %s", key);
    return json_number_value(value);
}

static int integer(const json_t *object, const char *key) {
    return (int)number(object, key);
}

/* null means none. */
static int optional(const json_t *object, const char *key) {
    return json_is_null(json_object_get(object, key)) ? -1 : integer(object, key);
}

static uint64_t wide(const json_t *object, const char *key) {
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static int read_ids(const json_t *object, const char *key, int32_t *ids) {
    const json_t *array = json_object_get(object, key);
    assert_true(json_is_array(array) && json_array_size(array) <= MAX_IDS);
    int n = (int)json_array_size(array);
    for (int i = 0; i < n; i++) {
        ids[i] = (int32_t)json_integer_value(json_array_get(array, (size_t)i));
    }
    return n;
}

static toy_params read_toy(const json_t *lm) {
    return (toy_params){.seed = wide(lm, "seed"),
                        .n_vocab = integer(lm, "n_vocab"),
                        .scale = (float)number(lm, "scale"),
                        .eot = integer(lm, "eot"),
                        .eot_bias = (float)number(lm, "eot_bias"),
                        .eot_slope = (float)number(lm, "eot_slope"),
                        .special_begin = integer(lm, "special_begin"),
                        .special_bias = (float)number(lm, "special_bias")};
}

static vo_timestamp_filter read_rules(const json_t *stamps, int32_t eot) {
    return (vo_timestamp_filter){.eot = eot,
                                 .no_timestamps = integer(stamps, "no_timestamps"),
                                 .timestamp_begin = integer(stamps, "begin"),
                                 .max_initial_index = optional(stamps, "max_initial")};
}

static json_t *load(void **state) {
    json_error_t error;
    json_t *root = json_load_file("tests/data/decode/golden.json", 0, &error);
    if (!root) fail_msg("tests/data/decode/golden.json: %s", error.text);
    *state = root;
    return root;
}

static vo_decode_params read_params(const json_t *c, int32_t eot) {
    vo_decode_params params = vo_decode_default_params();
    params.eot = eot;
    params.max_tokens = integer(c, "max_tokens");
    params.temperature = (float)number(c, "temperature");
    params.best_of = integer(c, "best_of");
    params.beam_size = integer(c, "beam_size");
    params.patience = (float)number(c, "patience");
    params.seed = wide(c, "seed");
    if (!json_is_null(json_object_get(c, "length_penalty"))) {
        params.length_penalty = (float)number(c, "length_penalty");
    }
    return params;
}

static void compare(const char *name, const json_t *want, const vo_decode_result *got) {
    int32_t tokens[MAX_IDS];
    int n = read_ids(want, "tokens", tokens);
    if (n != got->n_tokens) fail_msg("%s: %d tokens, not %d", name, got->n_tokens, n);
    for (int i = 0; i < n; i++) {
        if (tokens[i] != got->tokens[i]) {
            fail_msg("%s: token %d is %d, not %d", name, i, got->tokens[i], tokens[i]);
        }
    }
    double off = fabs(got->sum_logprob - number(want, "sum_logprob"));
    if (!(off <= 1e-4)) fail_msg("%s: sum_logprob off by %g", name, off);
    double avg_off = fabs(got->avg_logprob - number(want, "avg_logprob"));
    if (!(avg_off <= 1e-4)) fail_msg("%s: avg_logprob off by %g", name, avg_off);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)got->logprobs[i];
    if (!got->ended && fabs(sum - got->sum_logprob) > 1e-4) {
        fail_msg("%s: token log-probabilities give %g, not %g", name, sum, got->sum_logprob);
    }
    if (got->ended && sum < got->sum_logprob - 1e-4) fail_msg("%s: eot added probability", name);
}

static void run_case(const json_t *c) {
    const char *name = json_string_value(json_object_get(c, "name"));
    const json_t *stamps = json_object_get(c, "timestamps");
    int32_t prompt[MAX_IDS], always[MAX_IDS], first[MAX_IDS];
    int n_prompt = read_ids(c, "prompt", prompt), n_fed = integer(c, "n_fed");
    toy_params toy_of = read_toy(json_object_get(c, "lm"));
    vo_suppress_filter suppress = {.ids = always, .n_ids = read_ids(c, "suppress", always)};
    vo_suppress_filter blank = {
        .ids = first, .n_ids = read_ids(c, "suppress_first", first), .first_only = true};
    vo_timestamp_filter rules = {0};
    vo_logit_filter filters[3] = {vo_filter_suppress(&blank), vo_filter_suppress(&suppress)};
    vo_decode_params params = read_params(c, toy_of.eot);
    params.filters = filters;
    params.n_filters = 2;
    if (!json_is_null(stamps)) {
        rules = read_rules(stamps, toy_of.eot);
        filters[params.n_filters++] = vo_filter_timestamps(&rules);
    }
    int rows = params.temperature > 0 ? params.best_of : params.beam_size;
    toy *model = toy_create(toy_of, rows, integer(c, "max_length"));
    vo_error err = {0};
    vo_decoder *decoder = vo_decoder_create(&model->lm, &err);
    assert_non_null(decoder);
    toy_reset(model, prompt, n_fed);
    vo_decode_result result;
    vo_status status = vo_decode(decoder, prompt, n_prompt, n_fed, &params, &result, &err);
    if (status != VO_OK) fail_msg("%s: %s", name, err.message);
    assert_int_equal(result.steps, model->steps);
    const json_t *want = json_object_get(c, "result");
    int rows_stepped = optional(want, "rows_stepped");
    if (rows_stepped >= 0 && rows_stepped != model->rows_stepped) {
        fail_msg("%s: %d rows stepped, not %d", name, model->rows_stepped, rows_stepped);
    }
    compare(name, want, &result);
    vo_decoder_destroy(decoder);
    toy_destroy(model);
}

static void test_results_equal_the_reference(void **state) {
    const json_t *cases = json_object_get(load(state), "cases");
    assert_true(json_array_size(cases) > 150);
    for (size_t i = 0; i < json_array_size(cases); i++) run_case(json_array_get(cases, i));
}

static void run_filter_case(const json_t *c, size_t index) {
    int32_t tokens[2 * MAX_IDS];
    int n_prompt = read_ids(c, "prompt", tokens);
    int n = n_prompt + read_ids(c, "chosen", tokens + n_prompt);
    toy_params toy_of = read_toy(json_object_get(c, "lm"));
    vo_timestamp_filter rules = read_rules(json_object_get(c, "timestamps"), toy_of.eot);
    vo_logit_filter filter = vo_filter_timestamps(&rules);
    toy *model = toy_create(toy_of, 1, 2 * MAX_IDS);
    toy_reset(model, tokens, n);
    float before[MAX_IDS], after[MAX_IDS];
    assert_true(toy_of.n_vocab <= MAX_IDS);
    toy_logits(model, &model->rows[0], n, before);
    toy_logits(model, &model->rows[0], n, after);
    filter.apply(filter.self, after, toy_of.n_vocab, tokens, n, n_prompt);
    const json_t *ranges = json_object_get(c, "forbidden");
    size_t range = 0;
    for (int id = 0; id < toy_of.n_vocab; id++) {
        const json_t *r = json_array_get(ranges, range);
        if (r && id >= json_integer_value(json_array_get(r, 1))) {
            r = json_array_get(ranges, ++range);
        }
        bool forbidden = r && id >= json_integer_value(json_array_get(r, 0));
        float want = forbidden ? -INFINITY : before[id];
        if (after[id] != want) {
            fail_msg("filter case %zu: logit %d is %g, not %g", index, id, (double)after[id],
                     (double)want);
        }
    }
    toy_destroy(model);
}

static void test_timestamp_filter_equals_the_reference(void **state) {
    const json_t *cases = json_object_get(load(state), "filters");
    assert_true(json_array_size(cases) >= 60);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        run_filter_case(json_array_get(cases, i), i);
    }
}

static int unload(void **state) {
    json_decref(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_results_equal_the_reference, unload),
        cmocka_unit_test_teardown(test_timestamp_filter_equals_the_reference, unload),
    };
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
