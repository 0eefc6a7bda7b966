/* SPDX-License-Identifier: MIT
 *
 * What words do to segments and to the next window, against openai-whisper's transcribe() with a
 * stand-in for its model (tools/golden/words.py): the same words in the same segments, the same
 * times, the same next window, the same segments dropped as invented.
 */
#include "pipeline/words.h"

#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <jansson.h>

enum { MOST = 64 };
static json_t *golden;

static int open_golden(void **state) {
    golden = json_load_file("tests/data/pipeline/words.json", 0, NULL);
    return golden ? 0 : -1;
}
static int close_golden(void **state) {
    json_decref(golden);
    return 0;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}
static double number_at(const json_t *array, size_t i) {
    assert_true(json_is_number(json_array_get(array, i)));
    return json_number_value(json_array_get(array, i));
}

static vo_word_window read_window(const json_t *w) {
    return (vo_word_window){.seek = (int64_t)number(w, "seek"),
                            .size = (int64_t)number(w, "size"),
                            .window_frames = 3000,
                            .last = (int64_t)number(w, "content"),
                            .last_speech = number(w, "last_speech"),
                            .next = (int64_t)number(w, "from_timestamps"),
                            .single_ending = json_is_true(json_object_get(w, "single_ending")),
                            .threshold = number(w, "threshold")};
}

static int read_drafts(const json_t *w, vo_draft_segment *drafts) {
    const json_t *list = json_object_get(w, "drafts");
    const int n = (int)json_array_size(list);
    assert_in_range(n, 1, MOST);
    for (int i = 0; i < n; i++) {
        const json_t *d = json_array_get(list, (size_t)i);
        drafts[i] = (vo_draft_segment){
            .n_text = (int)number(d, "n"), .start = number(d, "start"), .end = number(d, "end")};
    }
    return n;
}

static vo_word_list read_words(const json_t *w) {
    const json_t *list = json_object_get(w, "alignment");
    vo_word_list words = {.n = (int)json_array_size(list)};
    words.texts = vo_alloc_array((size_t)words.n, sizeof *words.texts);
    words.words = vo_alloc_array((size_t)words.n + 1, sizeof *words.words);
    for (int i = 0; i < words.n; i++) {
        const json_t *word = json_array_get(list, (size_t)i);
        words.texts[i] = (vo_text_word){vo_strdup(json_string_value(json_array_get(word, 0))),
                                        (int)number_at(word, 1)};
        words.words[i] = (vocis_word){.start = number_at(word, 2),
                                      .end = number_at(word, 3),
                                      .probability = (float)number_at(word, 4)};
    }
    return words;
}

static vo_status assign(const json_t *w, vo_word_list *list, vo_draft_segment *drafts, int n,
                        vo_error *err) {
    const vo_word_window window = read_window(w);
    const vocis_transcribe_params p = vo_transcribe_default_params();
    return vo_words_assign(&window, list, drafts, n, p.prepend_punctuations, p.append_punctuations,
                           err);
}

static void check_draft(size_t window, int i, const vo_draft_segment *d, const json_t *want) {
    const json_t *words = json_object_get(want, "words");
    if (d->start != number(want, "start") || d->end != number(want, "end"))
        fail_msg("window %zu, segment %d: %.17g to %.17g instead of %.17g to %.17g", window, i,
                 d->start, d->end, number(want, "start"), number(want, "end"));
    assert_int_equal(d->n_words, json_array_size(words));
    for (int k = 0; k < d->n_words; k++) {
        const json_t *word = json_array_get(words, (size_t)k);
        assert_string_equal(d->words[k].text, json_string_value(json_array_get(word, 0)));
        if (d->words[k].start != number_at(word, 1) || d->words[k].end != number_at(word, 2))
            fail_msg("window %zu, segment %d, word %d: %.17g to %.17g", window, i, k,
                     d->words[k].start, d->words[k].end);
        assert_int_equal(d->words[k].speaker, -1);
    }
}

static void test_windows(void **state) {
    const json_t *windows = json_object_get(golden, "windows");
    int dropped = 0, moved = 0;
    for (size_t i = 0; i < json_array_size(windows); i++) {
        const json_t *w = json_array_get(windows, i), *result = json_object_get(w, "result");
        vo_word_window window = read_window(w);
        vo_word_list list = read_words(w);
        vo_draft_segment drafts[MOST];
        vo_error err = {0};
        int n = read_drafts(w, drafts);
        assert_int_equal(assign(w, &list, drafts, n, &err), VO_OK);
        for (int k = 0; k < n; k++)
            check_draft(i, k, &drafts[k], json_array_get(result, (size_t)k));
        const int all = n;
        vo_words_follow(&window, drafts, &n);
        if (window.next != (int64_t)number(w, "next") || n != (int)number(w, "kept"))
            fail_msg("window %zu: %d of %d segments, then frame %lld, not %d and %lld", i, n, all,
                     (long long)window.next, (int)number(w, "kept"), (long long)number(w, "next"));
        assert_true(window.last_speech == number(w, "last_speech_after"));
        dropped += n < all;
        moved += window.next != (int64_t)number(w, "from_timestamps");
        vo_word_list_free(&list);
    }
    print_message("%zu windows, %d with dropped segments, %d that move otherwise\n",
                  json_array_size(windows), dropped, moved);
    assert_true(dropped > 20 && moved > 20);
}

/* One segment whose only word takes no time: the reference would decode this window for ever. */
static void test_never_stands_still(void **state) {
    vocis_word word = {.text = " x", .start = 40.0, .end = 40.004, .probability = 0.9f};
    const vo_draft_segment draft = {
        .n_text = 1, .start = 40, .end = 40.004, .words = &word, .n_words = 1};
    for (int off = 0; off < 2; off++) {
        vo_word_window w = {.seek = 4000,
                            .size = 700,
                            .window_frames = 3000,
                            .last = 4700,
                            .next = 4700,
                            .threshold = off ? NAN : -5};
        int n = 1;
        vo_words_follow(&w, &draft, &n);
        assert_true(w.next > 4000);
    }
}

/* A stretch that knows nothing of the rest: silence counts from where it begins, and ends with it.
 */
static void test_stretch(void **state) {
    vocis_word word = {.text = " x", .start = 103.0, .end = 103.01, .probability = 0.05f};
    const vo_draft_segment draft = {
        .n_text = 1, .start = 103, .end = 103.01, .words = &word, .n_words = 1};
    vo_word_window w = {.seek = 10000,
                        .size = 400,
                        .window_frames = 3000,
                        .first = 10000,
                        .last = 10400,
                        .last_speech = 100,
                        .next = 10400,
                        .single_ending = true,
                        .threshold = 5};
    int n = 1;
    vo_words_follow(&w, &draft, &n); /* 3 s after the beginning, 1 s before the end */
    assert_int_equal(n, 1);          /* 27 s of window after it: no silence of 5 s in the stretch */
    w.last_speech = 100;
    w.threshold = 0.5; /* a leading gap of 3 s: once more from there */
    vo_words_follow(&w, &draft, &n);
    assert_true(w.again);
    assert_int_equal(n, 0);
    assert_int_equal(w.next, 10300);
}

static void test_no_memory(void **state) {
    const json_t *w = json_array_get(json_object_get(golden, "windows"), 3);
    const size_t before = vo_memory_get_stats().active_bytes;
    bool failed = true;
    for (int after = 0; failed; after++) {
        vo_word_list list = read_words(w);
        vo_draft_segment drafts[MOST];
        vo_error err = {0};
        const int n = read_drafts(w, drafts);
        vo_memory_fail_after(after, after % 2);
        const vo_status status = assign(w, &list, drafts, n, &err);
        failed = vo_memory_fail_after(-1, false);
        assert_int_equal(status, failed ? VO_ERR_MEMORY : VO_OK);
        vo_word_list_free(&list);
        assert_int_equal(vo_memory_get_stats().active_bytes, before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_never_stands_still),
        cmocka_unit_test(test_stretch),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
