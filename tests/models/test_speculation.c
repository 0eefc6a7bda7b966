/* SPDX-License-Identifier: MIT
 *
 * Sessions that speculate give what plain ones give, bit for bit: on tiny Whispers whose weights
 * are a hash, which walk through every rule, and on real weights and speech.
 */
#include "models/support_hash.h"
#include "models/support_real.h"

#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { SECOND = VOCIS_SAMPLE_RATE };
static const char speech[] = "golden/whisper_real/visible.flac";

typedef struct models {
    vocis_engine *engine;
    vocis_model *model;
    vocis_model *same;  /* in int8 */
    vocis_model *small; /* of other sizes; NULL: none */
} models;

static vocis_model *open_model(vocis_engine *engine, const char *path, const char *compute) {
    vo_error err = {0};
    vocis_model *model = NULL;
    if (vo_model_load(engine, path, compute, &model, &err) != VO_OK) fail_msg("%s", err.message);
    return model;
}

static models open_models(const char *path, const char *small, const char *compute, int threads) {
    models m = {.engine = real_engine(threads, getenv("VOCIS_CPU"))};
    assert_non_null(m.engine);
    m.model = open_model(m.engine, path, compute);
    m.same = open_model(m.engine, path, "int8");
    if (small) m.small = open_model(m.engine, small, "f32");
    return m;
}

static void close_models(models *m) {
    vo_model_destroy(m->model);
    vo_model_destroy(m->same);
    vo_model_destroy(m->small);
    real_engine_destroy(m->engine);
}

static vocis_result *transcribe(const models *m, vocis_session_params sp,
                                const vocis_transcribe_params *params, const vo_audio *audio) {
    vo_error err = {0};
    vocis_session *session = NULL;
    vocis_result *result = NULL;
    sp.max_sequences = 1;
    if (vo_session_create(m->model, sp, &session, &err) != VO_OK ||
        vo_transcribe(session, audio->samples, audio->n_samples, NULL, params, &result, &err) !=
            VO_OK)
        fail_msg("%s", err.message);
    vo_session_destroy(session);
    return result;
}

static void assert_same(const vocis_result *a, const vocis_result *b) {
    assert_int_equal(a->n_segments, b->n_segments);
    for (int i = 0; i < a->n_segments; i++) {
        const vocis_segment *x = &a->segments[i], *y = &b->segments[i];
        assert_int_equal(x->n_tokens, y->n_tokens);
        assert_memory_equal(x->tokens, y->tokens, (size_t)x->n_tokens * sizeof *x->tokens);
        assert_memory_equal(x->token_logprobs, y->token_logprobs,
                            (size_t)x->n_tokens * sizeof *x->token_logprobs);
        assert_string_equal(x->text, y->text);
        assert_true(x->start == y->start && x->end == y->end && x->seek == y->seek);
        assert_true(x->temperature == y->temperature && x->avg_logprob == y->avg_logprob);
        assert_true(x->no_speech_prob == y->no_speech_prob);
        assert_true(x->compression_ratio == y->compression_ratio);
    }
    assert_int_equal(a->timings.tokens, b->timings.tokens);
    assert_int_equal(a->timings.windows, b->timings.windows);
    assert_int_equal(a->timings.fallbacks, b->timings.fallbacks);
}

/* Every way to speculate against none. */
static void compare_all(const char *what, const models *m, const vocis_transcribe_params *params,
                        const vo_audio *audio, int windows) {
    const struct {
        vocis_speculation how;
        vocis_model *draft;
    } cases[] = {{VOCIS_SPECULATE_NGRAM, NULL},
                 {VOCIS_SPECULATE_DRAFT, m->same},
                 {VOCIS_SPECULATE_DRAFT, m->small},
                 {VOCIS_SPECULATE_AUTO, m->same}};
    vocis_result *plain = transcribe(m, (vocis_session_params){0}, params, audio);
    assert_true(plain->n_segments > 0 && plain->timings.proposed == 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].how == VOCIS_SPECULATE_DRAFT && !cases[i].draft) continue;
        const vocis_session_params sp = {
            .max_windows = windows, .speculate = cases[i].how, .draft = cases[i].draft};
        vocis_result *ahead = transcribe(m, sp, params, audio);
        const vocis_timings *t = &ahead->timings;
        print_message("%s, %zu: %d segments, %d steps instead of %d, %d of %d accepted\n", what, i,
                      plain->n_segments, t->steps, plain->timings.steps, t->accepted, t->proposed);
        assert_same(ahead, plain);
        assert_int_equal(t->steps, plain->timings.steps - t->accepted);
        if (cases[i].how == VOCIS_SPECULATE_DRAFT) assert_true(t->proposed > 0);
        if (cases[i].how == VOCIS_SPECULATE_DRAFT && cases[i].draft == m->same)
            assert_true(t->accepted > 0);
        vo_result_destroy(ahead);
    }
    vo_result_destroy(plain);
}

/* ---- tiny models ---------------------------------------------------------------------------- */

static models open_tiny(void) {
    const char *small = hash_folder_at("small");
    assert_true(hash_write_small_whisper(small, 80, 51865));
    return open_models(hash_folder_at("hash"), small, "f32", 2);
}

/* The clip, pauses, and the clip twice more: windows that slide, or three stretches. */
static vo_audio make_long(void) {
    vo_audio one = real_audio(REAL_JFK), all = one;
    const int64_t step = one.n_samples + 3 * SECOND;
    all.n_samples = 3 * step;
    all.samples = vo_alloc_array((size_t)all.n_samples, sizeof *all.samples);
    assert_non_null(all.samples);
    for (int i = 0; i < 3; i++)
        memcpy(all.samples + i * step, one.samples, (size_t)one.n_samples * sizeof *one.samples);
    vo_audio_free(&one);
    return all;
}

static vocis_transcribe_params tiny_params(void) {
    vocis_transcribe_params p = real_params(1);
    p.language = "en";
    p.max_tokens = 60;
    p.no_speech_threshold = 1; /* random weights hear nobody */
    return p;
}

static void test_tiny_models_walk_all_rules(void **state) {
    models m = open_tiny();
    vo_audio audio = make_long();
    vocis_transcribe_params p = tiny_params();
    compare_all("times", &m, &p, &audio, 1);
    p.without_timestamps = true;
    p.suppress_tokens = "";
    compare_all("no times", &m, &p, &audio, 1);
    p = tiny_params();
    p.initial_prompt = "One two three four five six seven eight, one two three four five.";
    p.carry_initial_prompt = true;
    p.prefix = "And so";
    compare_all("prompts", &m, &p, &audio, 1);
    p = tiny_params();
    p.temperature_increment = 0.4f;
    p.logprob_threshold = 0; /* never reached */
    p.seed = 5;
    compare_all("fallback", &m, &p, &audio, 1);
    p = tiny_params();
    p.max_tokens = 3;
    compare_all("short", &m, &p, &audio, 1);
    vo_audio_free(&audio);
    close_models(&m);
}

static void test_tiny_models_side_by_side(void **state) {
    models m = open_tiny();
    vo_audio audio = make_long();
    vocis_transcribe_params p = tiny_params();
    p.chunking = VOCIS_CHUNK_SPEECH;
    p.temperature_increment = 0.5f;
    p.logprob_threshold = 0;
    for (int windows = 1; windows <= 3; windows++)
        compare_all("side by side", &m, &p, &audio, windows);
    vo_audio_free(&audio);
    close_models(&m);
}

/* Several tokens of a row in one step have the logits that they have one by one. */
static void test_logits_of_several_tokens(void **state) {
    enum { TOKENS = 90, MOST = 8 };
    models m = open_tiny();
    vo_error err = {0};
    vocis_session *s = NULL;
    const vocis_session_params sp = {.max_sequences = 1, .speculate = VOCIS_SPECULATE_NGRAM};
    assert_int_equal(vo_session_create(m.model, sp, &s, &err), VO_OK);
    vo_audio audio = real_audio(REAL_JFK);
    real_encode(s, audio.samples, audio.n_samples);
    vo_audio_free(&audio);
    const vo_lm *lm = &s->lanes[0].lm;
    const size_t bytes = (size_t)lm->n_vocab * sizeof(float);
    assert_int_equal(lm->max_ahead, MOST - 1);
    int32_t tokens[TOKENS];
    for (int i = 0; i < TOKENS; i++) tokens[i] = i * 37 % 5000;
    float *want = vo_alloc_array(MOST, bytes), *const * logits;
    for (int length = MOST; length <= TOKENS; length += 27) {
        assert_int_equal(lm->rewind(lm->self, 0, 0, &err), VO_OK);
        for (int i = 0; i < length; i++) {
            assert_int_equal(
                lm->step(lm->self, &(vo_lm_input){0, 1, &tokens[i], 1}, 1, &logits, &err), VO_OK);
            const int at = i - (length - MOST);
            if (at >= 0) memcpy(want + (size_t)at * (size_t)lm->n_vocab, logits[0], bytes);
        }
        for (int n = 1; n <= MOST; n++) {
            assert_int_equal(lm->rewind(lm->self, 0, 0, &err), VO_OK);
            assert_int_equal(
                lm->step(lm->self, &(vo_lm_input){0, length, tokens, n}, 1, &logits, &err), VO_OK);
            for (int i = 0; i < n; i++)
                assert_memory_equal(logits[i], want + (size_t)(MOST - n + i) * (size_t)lm->n_vocab,
                                    bytes);
        }
    }
    assert_int_equal(lm->rewind(lm->self, 0, 0, &err), VO_OK);
    assert_int_equal(
        lm->step(lm->self, &(vo_lm_input){0, MOST + 1, tokens, MOST + 1}, 1, &logits, &err),
        VO_ERR_ARGUMENT);
    assert_int_equal(lm->step(lm->self, &(vo_lm_input){0, 2, tokens, 3}, 1, &logits, &err),
                     VO_ERR_ARGUMENT);
    vo_free(want);
    vo_session_destroy(s);
    close_models(&m);
}

static void refuse(vocis_model *model, vocis_speculation how, vocis_model *draft,
                   const char *because) {
    vo_error err = {0};
    vocis_session *s = NULL;
    const vocis_session_params sp = {.max_sequences = 1, .speculate = how, .draft = draft};
    assert_int_equal(vo_session_create(model, sp, &s, &err), VO_ERR_ARGUMENT);
    assert_null(s);
    if (!strstr(err.message, because)) fail_msg("%s", err.message);
}

static void test_impossible_drafts_are_refused(void **state) {
    models m = open_tiny(), other = open_tiny();
    const char *path = hash_folder_at("other");
    assert_true(hash_write_small_whisper(path, 80, 51864));
    vocis_model *english = open_model(m.engine, path, "f32");
    path = hash_folder_at("mels");
    assert_true(hash_write_small_whisper(path, 128, 51865));
    vocis_model *mels = open_model(m.engine, path, "f32");
    refuse(m.model, VOCIS_SPECULATE_DRAFT, NULL, "draft");
    refuse(m.model, VOCIS_SPECULATE_DRAFT, english, "vocabulary");
    refuse(m.model, VOCIS_SPECULATE_AUTO, english, "51864 tokens, not 51865");
    refuse(m.model, VOCIS_SPECULATE_DRAFT, mels, "128");
    refuse(m.model, VOCIS_SPECULATE_DRAFT, other.same, "engine");
    refuse(m.model, (vocis_speculation)9, NULL, "9");
    vo_model_destroy(english);
    vo_model_destroy(mels);
    close_models(&other);
    close_models(&m);
}

/* ---- real ones ------------------------------------------------------------------------------ */

static void test_real_speech(void **state) {
    if (!real_model("base") || !real_data(speech)) skip();
    char base[1024];
    snprintf(base, sizeof base, "%s", real_model("base"));
    vo_audio audio = real_audio(real_data(speech));
    assert_true(audio.n_samples > 31 * SECOND);
    audio.n_samples = 31 * SECOND;
    static const char *const computes[] = {"f32", "bf16", "int8"};
    for (size_t i = 0; i < sizeof computes / sizeof *computes; i++) {
        models m = open_models(base, NULL, computes[i], 2);
        vocis_transcribe_params p = real_params(1);
        p.language = "en";
        p.temperature_increment = i == 2 ? 0.5f : 0;
        if (i == 2) p.logprob_threshold = -0.2f; /* so that some windows fall back */
        if (i == 1) p.initial_prompt = "Thinking fast and slow.";
        compare_all(computes[i], &m, &p, &audio, 1);
        close_models(&m);
    }
    vo_audio_free(&audio);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny_models_walk_all_rules),
        cmocka_unit_test(test_tiny_models_side_by_side),
        cmocka_unit_test(test_logits_of_several_tokens),
        cmocka_unit_test(test_impossible_drafts_are_refused),
        cmocka_unit_test(test_real_speech),
    };
    return cmocka_run_group_tests(tests, hash_folder_set_up, hash_folder_tear_down);
}
