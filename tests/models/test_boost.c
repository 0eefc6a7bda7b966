/* SPDX-License-Identifier: MIT
 *
 * Boosting on real weights and real speech: names that base misses are found, and lists of what
 * nobody speaks change nothing.
 */
#include "models/support_real.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#define CLIPS "ggml-org__whisper.cpp/wer_testing/6097_5_mins/audio/"

static const struct {
    const char *file, *word;
} clips[] = {{CLIPS "nada_lily_20_haggard_0145.wav", "Chaka"},
             {CLIPS "bambatse_15_haggard_0013.wav", "faltered"},
             {CLIPS "roots_32_morris_0506.wav", "sooth"}};
enum { N_CLIPS = 3 };

static vocis_engine *engine;
static vocis_session *session;

static int begin(void **state) {
    if (!real_model("base") || !real_data(clips[0].file)) return 0;
    engine = real_engine(2, NULL);
    session = engine ? real_session(engine, real_model("base"), 5) : NULL;
    return session ? 0 : -1;
}

static int end(void **state) {
    if (session) real_session_destroy(session);
    if (engine) real_engine_destroy(engine);
    return 0;
}

static vocis_result *transcribe(int clip, int beam, const vocis_boost *boost, int n) {
    vocis_transcribe_params params = real_params(beam);
    params.language = "en";
    params.boost = boost;
    params.n_boost = n;
    vocis_result *result = real_transcribe(session, real_data(clips[clip].file), &params);
    assert_non_null(result);
    return result;
}

/* Whether a text holds a word of a list, with a small or capital first letter. */
static bool has(const vocis_result *result, const char *word) {
    return strstr(result->text, word + 1) != NULL;
}

static void test_names_are_found(void **state) {
    if (!session) skip();
    const vocis_boost list[] = {{"Chaka", 1}, {"faltered", 1}, {"sooth", 1}, {"misshapen", 1}};
    for (int i = 0; i < N_CLIPS; i++) {
        vocis_result *plain = transcribe(i, 1, NULL, 0);
        assert_false(has(plain, clips[i].word));
        vo_result_destroy(plain);
        vocis_result *boosted = transcribe(i, 1, list, 4);
        assert_true(has(boosted, clips[i].word));
        /* Log-probabilities are the model's, which liked something else better. */
        for (int k = 0; k < boosted->segments[0].n_tokens; k++)
            assert_true(boosted->segments[0].token_logprobs[k] <= 0);
        vo_result_destroy(boosted);
    }
}

static void test_absurd_lists_change_nothing(void **state) {
    if (!session) skip();
    const vocis_boost list[] = {{"the", 1},
                                {"and of", 1},
                                {"The", 4},
                                {",,,,", 4},
                                {"", 4},
                                {"Geschwindigkeitsbegrenzung", 1},
                                {"xylem", 1},
                                {"qwerty", 1},
                                {"looking for was he", 1},
                                {"!", 4},
                                {"\xe6\x9d\xb1\xe4\xba\xac", 1}};
    for (int i = 0; i < N_CLIPS; i++) {
        for (int beam = 1; beam <= 5; beam += 4) {
            vocis_result *plain = transcribe(i, beam, NULL, 0);
            vocis_result *boosted = transcribe(i, beam, list, (int)(sizeof list / sizeof *list));
            assert_string_equal(plain->text, boosted->text);
            assert_true(plain->segments[0].avg_logprob == boosted->segments[0].avg_logprob);
            vo_result_destroy(plain);
            vo_result_destroy(boosted);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_found),
        cmocka_unit_test(test_absurd_lists_change_nothing),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
