/* SPDX-License-Identifier: MIT
 *
 * A transcription that was stopped anywhere goes on to the result of one that was not: for every
 * length of its journal, in both ways of cutting, with other numbers of windows and workers, after
 * aborts and full disks. The model is a tiny random one, which talks a lot and falls back often.
 */
#include "models/support_hash.h"
#include "models/support_real.h"

#include "base/file.h"
#include "base/memory.h"
#include "pipeline/journal.h"
#include "pipeline/segment.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { SECOND = VOCIS_SAMPLE_RATE, COPIES = 7, GAP = 2 * SECOND, SESSIONS = 4 };

static vocis_engine *engine;
static vocis_model *model;
static float *speech; /* the Kennedy clip again and again */
static int64_t n_speech;
static vocis_session *sessions[SESSIONS];
/* windows, workers */
static const int sizes[SESSIONS][2] = {{1, 1}, {3, 1}, {4, 2}, {3, 3}};

static int set_up(void **state) {
    vo_error err = {0};
    if (hash_folder_set_up(state)) return -1;
    vo_audio jfk = real_audio(REAL_JFK);
    n_speech = COPIES * (jfk.n_samples + GAP);
    speech = vo_alloc_array((size_t)n_speech, sizeof *speech);
    engine = real_engine(3, getenv("VOCIS_CPU"));
    if (!speech || !engine || !jfk.samples) return -1;
    for (int i = 0; i < COPIES; i++)
        memcpy(speech + i * (jfk.n_samples + GAP), jfk.samples,
               (size_t)jfk.n_samples * sizeof *speech);
    vo_audio_free(&jfk);
    if (vo_model_load(engine, hash_folder_at("hash"), "f32", &model, &err) != VO_OK) return -1;
    for (int i = 0; i < SESSIONS; i++) {
        const vocis_session_params p = {
            .max_sequences = 2, .max_windows = sizes[i][0], .max_workers = sizes[i][1]};
        if (vo_session_create(model, p, &sessions[i], &err) != VO_OK) return -1;
    }
    return 0;
}

static int tear_down(void **state) {
    for (int i = 0; i < SESSIONS; i++) vo_session_destroy(sessions[i]);
    vo_model_destroy(model);
    real_engine_destroy(engine);
    vo_free(speech);
    return hash_folder_tear_down(state);
}

/* ---- one run --------------------------------------------------------------------------------- */

/* What the callbacks saw. */
typedef struct seen {
    int segments, warnings, polls, polls_left; /* < 0: never stop */
    double end;
} seen;

static void on_segment(void *user, const vocis_segment *s) {
    seen *r = user;
    assert_int_equal(s->id, r->segments);
    r->segments++;
    r->end = s->end;
}
static bool on_abort(void *user) {
    seen *r = user;
    r->polls++;
    return r->polls_left >= 0 && r->polls_left-- == 0;
}
static void on_warning(void *user, const char *sentence) {
    seen *r = user;
    r->warnings++;
}

static vocis_transcribe_params params_of(vocis_chunking chunking, const char *journal,
                                         seen *callbacks) {
    vocis_transcribe_params p = vo_transcribe_default_params();
    p.chunking = chunking;
    p.beam_size = 2;
    p.best_of = 2;
    p.max_tokens = 12;
    p.temperature_increment = 0.5f;
    p.logprob_threshold = -4; /* so that some windows fall back */
    p.no_speech_threshold = NAN;
    p.guard = false; /* it would take most back: nobody speaks */
    p.seed = 7;
    p.journal = journal;
    p.on_segment = on_segment;
    p.on_abort = on_abort;
    p.on_warning = on_warning;
    p.user = callbacks;
    return p;
}

static vo_status run(int session, const vocis_transcribe_params *p, vocis_result **result,
                     vo_error *err) {
    return vo_transcribe(sessions[session], speech, n_speech, NULL, p, result, err);
}

static vocis_result *run_whole(int session, vocis_chunking chunking, const char *journal) {
    vo_error err = {0};
    vocis_result *result = NULL;
    seen callbacks = {.polls_left = -1};
    const vocis_transcribe_params p = params_of(chunking, journal, &callbacks);
    if (run(session, &p, &result, &err) != VO_OK) fail_msg("%s", err.message);
    assert_int_equal(callbacks.segments, result->n_segments);
    assert_int_equal(callbacks.warnings, 0);
    return result;
}

static void assert_same(const vocis_result *a, const vocis_result *b) {
    assert_int_equal(a->n_segments, b->n_segments);
    for (int i = 0; i < a->n_segments; i++) {
        const vocis_segment *x = &a->segments[i], *y = &b->segments[i];
        const size_t n = (size_t)x->n_tokens;
        assert_string_equal(x->text, y->text);
        assert_int_equal(x->n_tokens, y->n_tokens);
        assert_memory_equal(x->tokens, y->tokens, n * sizeof *x->tokens);
        assert_memory_equal(x->token_logprobs, y->token_logprobs, n * sizeof *x->token_logprobs);
        assert_true(x->id == y->id && x->seek == y->seek && x->speaker == y->speaker);
        assert_true(x->start == y->start && x->end == y->end && x->temperature == y->temperature);
        assert_true(x->avg_logprob == y->avg_logprob && x->no_speech_prob == y->no_speech_prob &&
                    x->compression_ratio == y->compression_ratio);
        assert_true(x->n_words == y->n_words && !x->words == !y->words);
    }
    assert_string_equal(a->text, b->text);
    assert_string_equal(a->language, b->language);
    assert_true(a->language_probability == b->language_probability &&
                a->language_detected == b->language_detected && a->duration == b->duration);
    assert_int_equal(a->timings.windows, b->timings.windows);
    assert_int_equal(a->timings.fallbacks, b->timings.fallbacks);
    assert_int_equal(a->timings.steps, b->timings.steps);
    assert_int_equal(a->timings.tokens, b->timings.tokens);
}

/* ---- journals as files ----------------------------------------------------------------------- */

typedef struct bytes {
    char *data;
    size_t size;
} bytes;

static bytes read_bytes(const char *path) {
    bytes b;
    assert_int_equal(vo_file_read(path, 1 << 24, &b.data, &b.size, NULL), VO_OK);
    return b;
}

static void write_bytes(const char *path, const char *data, size_t size) {
    assert_int_equal(vo_file_write_atomic(path, data, size, NULL), VO_OK);
}

/* Where records end: ends[0] is where the first begins. */
static int find_ends(bytes b, size_t *ends, int capacity) {
    vo_record record;
    size_t at = VO_RECORDS_MAGIC;
    int n = 0;
    do {
        assert_true(n < capacity);
        ends[n++] = at;
    } while (vo_record_read(b.data, b.size, &at, &record));
    assert_int_equal(at, b.size);
    return n;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* For every beginning of a whole journal, with a piece of the next record behind it. */
static void resume_everywhere(vocis_chunking chunking) {
    enum { MOST = 256 };
    size_t ends[MOST], ends_after[MOST];
    const char *whole = hash_folder_at("whole"), *cut = hash_folder_at("cut");
    remove(whole);
    vocis_result *plain = run_whole(0, chunking, NULL);
    vocis_result *kept = run_whole(0, chunking, whole);
    assert_same(kept, plain);
    vo_result_destroy(kept);
    bytes all = read_bytes(whole);
    const int n = find_ends(all, ends, MOST);
    print_message("%d segments, %d windows, %d fallbacks, %d records, %zu bytes\n",
                  plain->n_segments, plain->timings.windows, plain->timings.fallbacks, n - 1,
                  all.size);
    assert_true(plain->timings.windows >= 4);
    /* fingerprint and language, and chunks when there are any; second looks have no record */
    assert_in_range(n - 1, 6, plain->timings.windows + 2 + (chunking == VOCIS_CHUNK_SPEECH));
    for (int i = 0; i < n; i++) {
        const size_t torn = i + 1 < n ? (ends[i + 1] - ends[i]) / 2 : 0;
        const int session = chunking == VOCIS_CHUNK_SPEECH ? i % SESSIONS : 0;
        write_bytes(cut, all.data, ends[i] + torn);
        vocis_result *resumed = run_whole(session, chunking, cut);
        assert_same(resumed, plain);
        vo_result_destroy(resumed);
        /* nothing was done twice */
        bytes after = read_bytes(cut);
        assert_int_equal(find_ends(after, ends_after, MOST), n);
        assert_memory_equal(after.data, all.data, ends[i]);
        if (session == 0) assert_int_equal(after.size, all.size);
        if (session == 0) assert_memory_equal(after.data, all.data, all.size);
        vo_free(after.data);
    }
    vo_free(all.data);
    vo_result_destroy(plain);
}

static void test_sequential(void **state) {
    resume_everywhere(VOCIS_CHUNK_SEQUENTIAL);
}
static void test_chunks(void **state) {
    resume_everywhere(VOCIS_CHUNK_SPEECH);
}

/* Stopped again and again, by sessions of other sizes, until it is done. */
static void test_aborts(void **state) {
    const char *path = hash_folder_at("aborted");
    for (int chunking = 0; chunking < 2; chunking++) {
        vocis_result *plain = run_whole(0, (vocis_chunking)chunking, NULL), *result = NULL;
        vo_status status = VO_ERR_ABORTED;
        int runs = 0;
        remove(path);
        for (; status == VO_ERR_ABORTED; runs++) {
            vo_error err = {0};
            seen callbacks = {.polls_left = 8 + 2 * runs};
            const vocis_transcribe_params p = params_of((vocis_chunking)chunking, path, &callbacks);
            vo_result_destroy(result);
            status = run(runs % SESSIONS, &p, &result, &err);
            assert_int_equal(callbacks.segments, result ? result->n_segments : 0);
        }
        assert_int_equal(status, VO_OK);
        assert_true(runs > 1); /* how often it is asked to stop depends on who works */
        print_message("done after %d runs\n", runs);
        assert_same(result, plain);
        vo_result_destroy(result);
        vo_result_destroy(plain);
    }
}

/* The journal does not fit on the disk: an error that names it, and later the rest is done. */
static void test_full_disk(void **state) {
    const char *path = hash_folder_at("full");
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    vocis_result *plain = run_whole(0, VOCIS_CHUNK_SEQUENTIAL, NULL);
    vo_error err = {0};
    for (rlim_t room = 0; room < 1200; room += 173) {
        const struct rlimit limit = {room, old.rlim_max};
        seen callbacks = {.polls_left = -1};
        const vocis_transcribe_params p = params_of(VOCIS_CHUNK_SEQUENTIAL, path, &callbacks);
        vocis_result *result = NULL;
        err = (vo_error){0};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        const vo_status status = run(0, &p, &result, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(status, VO_ERR_IO);
        if (!strstr(err.message, path)) fail_msg("%s", err.message);
        vo_result_destroy(result);
    }
    vocis_result *result = run_whole(0, VOCIS_CHUNK_SEQUENTIAL, path);
    assert_same(result, plain);
    vo_result_destroy(result);
    vo_result_destroy(plain);
    signal(SIGXFSZ, SIG_DFL);
}

/* ---- fingerprints ---------------------------------------------------------------------------- */

/* Whether the journal at path, which has windows, counts for these. */
static bool counts(const char *path, bytes whole, const vocis_session *session,
                   const float *samples, int64_t n, vocis_transcribe_params p) {
    vo_error err = {0};
    vo_journal *journal;
    vo_record window;
    size_t at = 0;
    seen callbacks = {0};
    p.journal = path;
    p.user = &callbacks;
    write_bytes(path, whole.data, whole.size);
    if (vo_journal_open(session, samples, n, &p, &journal, &err) != VO_OK)
        fail_msg("%s", err.message);
    const bool same = vo_journal_next_window(journal, &at, &window);
    vo_journal_close(journal);
    assert_int_equal(callbacks.warnings, !same);
    return same;
}

static void test_settings(void **state) {
    const char *path = hash_folder_at("settings");
    static const double clips[2][2] = {{0, 1}, {0, 2}};
    seen callbacks = {.polls_left = -1};
    remove(path);
    vo_result_destroy(run_whole(0, VOCIS_CHUNK_SEQUENTIAL, path));
    bytes whole = read_bytes(path);
    const vocis_transcribe_params same = params_of(VOCIS_CHUNK_SEQUENTIAL, path, &callbacks);
    for (int i = 0; i < SESSIONS; i++)
        assert_true(counts(path, whole, sessions[i], speech, n_speech, same));
#define OTHER(member, value)                                                                       \
    do {                                                                                           \
        vocis_transcribe_params p = same;                                                          \
        p.member = value;                                                                          \
        if (counts(path, whole, sessions[0], speech, n_speech, p)) fail_msg("%s", #member);        \
    } while (0)
    OTHER(language, "en");
    OTHER(languages, "en,zh");
    OTHER(task, VOCIS_TRANSLATE);
    OTHER(temperature, 0.1f);
    OTHER(temperature_increment, 0.4f);
    OTHER(best_of, 1);
    OTHER(beam_size, 1);
    OTHER(patience, 2);
    OTHER(length_penalty, 0.5f);
    OTHER(suppress_tokens, "");
    OTHER(suppress_blank, false);
    OTHER(initial_prompt, "");
    OTHER(carry_initial_prompt, true);
    OTHER(prefix, "And");
    OTHER(condition_on_previous_text, false);
    OTHER(compression_ratio_threshold, 2.5f);
    OTHER(logprob_threshold, -2);
    OTHER(no_speech_threshold, 0.5f);
    OTHER(without_timestamps, true);
    OTHER(max_initial_timestamp, 2);
    OTHER(word_timestamps, true);
    OTHER(prepend_punctuations, "");
    OTHER(append_punctuations, "");
    OTHER(hallucination_silence_threshold, 2);
    OTHER(recover, false);
    OTHER(guard, true);
    OTHER(chunking, VOCIS_CHUNK_SPEECH);
    OTHER(max_tokens, 13);
    OTHER(seed, 8);
#undef OTHER
    vocis_transcribe_params p = same;
    p.n_clip_timestamps = 2; /* of none */
    assert_true(counts(path, whole, sessions[0], speech, n_speech, p));
    p.clip_timestamps = clips[0];
    assert_false(counts(path, whole, sessions[0], speech, n_speech, p));
    vo_free(whole.data);
}

/* The same journal for other samples, arithmetic, instruction sets and weights. */
static void test_inputs(void **state) {
    const char *path = hash_folder_at("inputs");
    seen callbacks = {.polls_left = -1};
    const vocis_transcribe_params p = params_of(VOCIS_CHUNK_SEQUENTIAL, path, &callbacks);
    remove(path);
    vo_result_destroy(run_whole(0, VOCIS_CHUNK_SEQUENTIAL, path));
    bytes whole = read_bytes(path);
    assert_false(counts(path, whole, sessions[0], speech, n_speech - 1, p));
    speech[n_speech - 1] += 1e-6f;
    assert_false(counts(path, whole, sessions[0], speech, n_speech, p));
    speech[n_speech - 1] = 0;
    assert_true(counts(path, whole, sessions[0], speech, n_speech, p));
    const vo_compute compute = model->whisper->compute;
    model->whisper->compute = VO_COMPUTE_INT8;
    assert_false(counts(path, whole, sessions[0], speech, n_speech, p));
    model->whisper->compute = compute;
    engine->cpu_flags ^= 1;
    assert_false(counts(path, whole, sessions[0], speech, n_speech, p));
    engine->cpu_flags ^= 1;
    assert_true(counts(path, whole, sessions[0], speech, n_speech, p));
    /* a model whose last weight differs */
    bytes weights = read_bytes(hash_folder_at("hash"));
    weights.data[weights.size - 1] ^= 1;
    write_bytes(hash_folder_at("other"), weights.data, weights.size);
    vocis_session *other = real_session(engine, hash_folder_at("other"), 2);
    assert_false(counts(path, whole, other, speech, n_speech, p));
    real_session_destroy(other);
    vo_free(weights.data);
    vo_free(whole.data);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* Records that nobody writes, with right checksums: an error or another result, nothing worse. */
static void test_impossible_records(void **state) {
    enum { TRIES = 30 };
    const char *path = hash_folder_at("odd");
    uint64_t seed = 3;
    int refused = 0;
    remove(path);
    vo_result_destroy(run_whole(0, VOCIS_CHUNK_SPEECH, path));
    bytes whole = read_bytes(path);
    vo_record record;
    for (int i = 0; i < TRIES; i++) {
        vo_records *records;
        vocis_result *result = NULL;
        vo_error err = {0};
        size_t at = VO_RECORDS_MAGIC, count = 0, chosen;
        while (vo_record_read(whole.data, whole.size, &at, &record)) count++;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        chosen = 1 + (size_t)(seed >> 33) % (count - 1); /* all but the fingerprint */
        remove(path);
        char magic[VO_RECORDS_MAGIC + 1] = {0};
        memcpy(magic, whole.data, VO_RECORDS_MAGIC);
        assert_int_equal(vo_records_open(path, magic, &records, &err), VO_OK);
        at = VO_RECORDS_MAGIC;
        for (size_t k = 0; vo_record_read(whole.data, whole.size, &at, &record); k++) {
            unsigned char *copy = vo_alloc(record.size);
            size_t size = record.size;
            memcpy(copy, record.data, size);
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if (k == chosen && i % 4 == 0)
                size = (size_t)(seed >> 33) % size;
            else if (k == chosen)
                copy[(size_t)(seed >> 33) % (i % 2       ? size
                                             : 64 < size ? 64
                                                         : size)] = (unsigned char)(seed >> 20);
            assert_int_equal(vo_records_append(records, record.type, copy, size, &err), VO_OK);
            vo_free(copy);
        }
        vo_records_close(records);
        seen callbacks = {.polls_left = 400};
        const vocis_transcribe_params p = params_of(VOCIS_CHUNK_SPEECH, path, &callbacks);
        const vo_status status = run(i % SESSIONS, &p, &result, &err);
        assert_true(status == VO_OK || status == VO_ERR_FORMAT || status == VO_ERR_ABORTED);
        refused += status == VO_ERR_FORMAT;
        vo_result_destroy(result);
    }
    print_message("%d of %d refused\n", refused, TRIES);
    assert_true(refused > TRIES / 20);
    vo_free(whole.data);
}

/* What journals will hold of words comes back as it was. */
static void test_words(void **state) {
    static const vocis_word words[] = {{" One", 0.5, 1, 0.25f, 1}, {"", 1, 1, NAN, -1}};
    static const int32_t tokens[] = {5, 6, 7};
    static const float logprobs[] = {-1, -INFINITY, 0};
    const vocis_segment s = {.start = 1,
                             .end = 2,
                             .text = " One",
                             .tokens = tokens,
                             .token_logprobs = logprobs,
                             .n_tokens = 3,
                             .seek = 1LL << 40,
                             .words = words,
                             .n_words = 2,
                             .speaker = 1};
    vocis_segment back;
    vo_buf buf = {0};
    vo_segment_save(&buf, &s);
    assert_int_equal(buf.size % 8, 0);
    const size_t all = buf.size;
    vo_segment_save(&buf, &s);
    const vo_record record = {0, (const unsigned char *)buf.data, buf.size};
    size_t at = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(vo_segment_load(&record, &at, &back, NULL), VO_OK);
        assert_int_equal(at, all * (size_t)(i + 1));
        assert_string_equal(back.text, s.text);
        assert_memory_equal(back.tokens, tokens, sizeof tokens);
        assert_memory_equal(back.token_logprobs, logprobs, sizeof logprobs);
        assert_true(back.seek == s.seek && back.n_words == 2 && back.speaker == 1);
        for (int k = 0; k < 2; k++) {
            assert_string_equal(back.words[k].text, words[k].text);
            assert_true(back.words[k].start == words[k].start &&
                        back.words[k].end == words[k].end &&
                        back.words[k].speaker == words[k].speaker);
        }
        vo_free((void *)back.words);
    }
    for (size_t size = 0; size < all; size++) {
        const vo_record cut = {0, (const unsigned char *)buf.data, size};
        vo_error err = {0};
        at = 0;
        assert_int_equal(vo_segment_load(&cut, &at, &back, &err), VO_ERR_FORMAT);
        assert_null(back.words);
    }
    vo_buf_free(&buf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequential), cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_aborts),     cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_settings),   cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_words),      cmocka_unit_test(test_impossible_records),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
