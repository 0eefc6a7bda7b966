/* SPDX-License-Identifier: MIT
 *
 * Tokens to words in many scripts, and marks given to their words, against openai-whisper
 * (tools/golden/words.py).
 */
#include "text/words.h"

#include "base/memory.h"
#include "text/support_text.h"

enum { MOST = 512 };
static const char golden_path[] = "tests/data/text/words.json";

static vo_tokenizer *multilingual, *english;

static int open_tokenizers(void **state) {
    vo_error err = {0};
    return vo_tokenizer_create(51866, &multilingual, &err) != VO_OK ||
           vo_tokenizer_create(51864, &english, &err) != VO_OK;
}
static int close_tokenizers(void **state) {
    vo_tokenizer_destroy(multilingual);
    vo_tokenizer_destroy(english);
    return 0;
}

static const char *string_at(const json_t *array, int i) {
    const char *text = json_string_value(json_array_get(array, (size_t)i));
    assert_non_null(text);
    return text;
}
static int integer_at(const json_t *array, int i) {
    return (int)json_integer_value(json_array_get(array, (size_t)i));
}

static vo_status split(const json_t *one, vo_text_word **words, int *n, vo_error *err) {
    int32_t ids[MOST];
    const json_t *list = json_object_get(one, "ids");
    const char *language = json_string_value(json_object_get(one, "language"));
    const int n_ids = (int)json_array_size(list);
    assert_in_range(n_ids, 0, MOST);
    for (int i = 0; i < n_ids; i++) ids[i] = integer_at(list, i);
    return vo_split_words(language ? multilingual : english, ids, n_ids, language, words, n, err);
}

static void test_split(void **state) {
    json_t *golden = load_json(golden_path), *one;
    size_t i;
    int words_seen = 0;
    json_array_foreach(json_object_get(golden, "split"), i, one) {
        const json_t *want = json_object_get(one, "words"),
                     *counts = json_object_get(one, "counts");
        vo_text_word *words;
        vo_error err = {0};
        int n;
        assert_int_equal(split(one, &words, &n, &err), VO_OK);
        if (n != (int)json_array_size(want))
            fail_msg("case %zu: %d words instead of %zu", i, n, json_array_size(want));
        for (int k = 0; k < n; k++) {
            assert_string_equal(words[k].text, string_at(want, k));
            assert_int_equal(words[k].n_ids, integer_at(counts, k));
        }
        words_seen += n;
        vo_text_words_free(words, n);
    }
    assert_true(words_seen > 500);
    json_decref(golden);
}

/* Copies, as the words of a list own their texts. */
static vo_text_word *copy_words(const json_t *list, int n) {
    vo_text_word *words = vo_alloc_array((size_t)n, sizeof *words);
    for (int i = 0; i < n; i++) words[i] = (vo_text_word){vo_strdup(string_at(list, i)), i + 1};
    return words;
}

static void test_merge(void **state) {
    json_t *golden = load_json(golden_path), *one;
    size_t i;
    json_array_foreach(json_object_get(golden, "merge"), i, one) {
        const json_t *list = json_object_get(one, "words");
        const json_t *merged = json_object_get(one, "merged");
        const json_t *counts = json_object_get(one, "counts");
        const int n = (int)json_array_size(list);
        vo_text_word *words = copy_words(list, n);
        vo_error err = {0};
        assert_int_equal(vo_merge_punctuations(words, n, get_string(one, "prepended"),
                                               get_string(one, "appended"), &err),
                         VO_OK);
        for (int k = 0; k < n; k++) {
            assert_string_equal(words[k].text, string_at(merged, k));
            assert_int_equal(words[k].n_ids, integer_at(counts, k));
        }
        vo_text_words_free(words, n);
    }
    assert_true(i > 50);
    json_decref(golden);
}

/* Ids that no tokenizer has must not be read. */
static void test_strange_ids(void **state) {
    static const int32_t ids[] = {-1, INT32_MAX, 51865, 50257, 220, 0};
    vo_text_word *words;
    vo_error err = {0};
    int n;
    assert_int_equal(vo_split_words(multilingual, ids, 6, "en", &words, &n, &err), VO_OK);
    vo_text_words_free(words, n);
    assert_int_equal(vo_split_words(multilingual, NULL, 0, "en", &words, &n, &err), VO_OK);
    assert_int_equal(n, 0);
    assert_null(words);
}

static void test_no_memory(void **state) {
    json_t *golden = load_json(golden_path), *splits = json_object_get(golden, "split");
    for (size_t i = 0; i < 30; i += 7) {
        const size_t before = vo_memory_get_stats().active_bytes;
        bool failed = true;
        for (int after = 0; failed; after++) {
            vo_text_word *words;
            vo_error err = {0};
            int n;
            vo_memory_fail_after(after, after % 2);
            vo_status status = split(json_array_get(splits, i), &words, &n, &err);
            if (status == VO_OK) status = vo_merge_punctuations(words, n, "(", ".,!?", &err);
            failed = vo_memory_fail_after(-1, false);
            assert_int_equal(status, failed ? VO_ERR_MEMORY : VO_OK);
            vo_text_words_free(words, n);
            assert_int_equal(vo_memory_get_stats().active_bytes, before);
        }
    }
    json_decref(golden);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_strange_ids),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, open_tokenizers, close_tokenizers);
}
