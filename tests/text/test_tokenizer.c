/* SPDX-License-Identifier: MIT
 *
 * The tokenizer against the reference: ids of many texts, special ids, non-speech ids; and its
 * promises for hostile text: any bytes come back, in linear time.
 */
#include "text/support_text.h"

#include "base/clock.h"
#include "base/memory.h"
#include "text/bpe.h"
#include "text/split.h"
#include "text/tokenizer.h"

static const int32_t sizes[3] = {51864, 51865, 51866};
static vo_tokenizer *tokenizers[3];

static int create_all(void **state) {
    vo_error err = {0};
    for (int k = 0; k < 3; k++)
        if (vo_tokenizer_create(sizes[k], &tokenizers[k], &err)) return -1;
    return 0;
}

static int destroy_all(void **state) {
    for (int k = 0; k < 3; k++) vo_tokenizer_destroy(tokenizers[k]);
    return 0;
}

static void check_ids(const char *what, const int32_t *ids, int n, const json_t *expected) {
    bool same = n == (int)json_array_size(expected);
    for (int i = 0; same && i < n; i++)
        same = ids[i] == json_integer_value(json_array_get(expected, (size_t)i));
    if (!same) fail_msg("wrong ids for %s", what);
}

/* Encodes and decodes one golden text with every vocabulary. */
static void check_text(const json_t *golden) {
    const json_t *text = json_object_get(golden, "text");
    for (int k = 0; k < 3; k++) {
        vo_error err = {0};
        int32_t *ids;
        int n;
        const json_t *expected = json_object_get(golden, k == 0 ? "gpt2" : "multilingual");
        assert_int_equal(vo_tokenizer_encode(tokenizers[k], json_string_value(text),
                                             json_string_length(text), &ids, &n, &err),
                         VO_OK);
        check_ids(json_string_value(text), ids, n, expected);
        char *back = vo_tokenizer_decode(tokenizers[k], ids, n);
        assert_string_equal(back, json_string_value(text));
        vo_free(back);
        vo_free(ids);
    }
}

static void encodes_as_reference(void **state) {
    json_t *golden = load_json("tests/data/text/tokenizer_golden.json"), *one;
    size_t i;
    assert_int_equal(json_array_size(golden), 20);
    json_array_foreach(golden, i, one) check_text(one);
    json_decref(golden);
}

static void encodes_random_as_reference(void **state) {
    json_t *golden = load_json("tests/data/text/random.json"), *one;
    size_t i;
    assert_int_equal(json_array_size(json_object_get(golden, "cases")), 500);
    json_array_foreach(json_object_get(golden, "cases"), i, one) check_text(one);
    json_decref(golden);
}

static int64_t member(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) fail_msg("no number \"%s\" in a golden", key);
    return json_integer_value(value);
}

static void check_special_ids(const json_t *golden, const vo_tokenizer *t) {
    const vo_whisper_ids *ids = vo_tokenizer_ids(t);
    const json_t *named = json_object_get(golden, "ids");
    assert_int_equal(ids->n_vocab, member(golden, "n_vocab"));
    assert_int_equal(ids->n_languages, member(golden, "num_languages"));
    assert_int_equal(ids->multilingual, ids->n_vocab > 51864);
    assert_int_equal(ids->eot, member(named, "<|endoftext|>"));
    assert_int_equal(ids->sot, member(named, "<|startoftranscript|>"));
    assert_int_equal(ids->first_language, member(named, "<|en|>"));
    assert_int_equal(ids->translate, member(named, "<|translate|>"));
    assert_int_equal(ids->transcribe, member(named, "<|transcribe|>"));
    assert_int_equal(ids->sot_lm, member(named, "<|startoflm|>"));
    assert_int_equal(ids->sot_prev, member(named, "<|startofprev|>"));
    assert_int_equal(ids->no_speech, member(named, "<|nospeech|>"));
    assert_int_equal(ids->no_timestamps, member(named, "<|notimestamps|>"));
    assert_int_equal(ids->timestamp_begin, member(named, "<|0.00|>"));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)named, key, value) {
        size_t size;
        int32_t id = (int32_t)json_integer_value(value);
        const char *text = vo_tokenizer_token(t, id, &size);
        assert_string_equal(text, id < ids->timestamp_begin ? key : "");
        assert_int_equal(size, strlen(text));
    }
    json_object_foreach(json_object_get(golden, "language_ids"), key, value) {
        assert_string_equal(vo_language_code((int)json_integer_value(value) - ids->first_language),
                            key);
    }
    int n;
    const int32_t *non_speech = vo_tokenizer_non_speech(t, &n);
    check_ids("non-speech", non_speech, n, json_object_get(golden, "non_speech_tokens"));
}

static void special_ids_as_reference(void **state) {
    json_t *golden = load_json("tests/data/text/special_tokens.json"), *one;
    const char *key;
    int k = 0;
    json_object_foreach(golden, key, one) check_special_ids(one, tokenizers[k++]);
    assert_int_equal(k, 3);
    json_decref(golden);
}

static void refuses_foreign_sizes(void **state) {
    vo_whisper_ids ids;
    vo_error err = {0};
    vo_tokenizer *t;
    assert_int_equal(vo_whisper_ids_from_vocab(51863, &ids, &err), VO_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "51863"));
    assert_int_equal(vo_tokenizer_create(-1, &t, NULL), VO_ERR_UNSUPPORTED);
    assert_null(t);
    vo_tokenizer_destroy(NULL);
}

static void decodes_any_ids(void **state) {
    static const int32_t ids[] = {-1,    INT32_MIN, INT32_MAX, 50364, 51864,
                                  15947, 11,        1002,      0,     50257};
    char *text = vo_tokenizer_decode(tokenizers[1], ids, 10);
    assert_string_equal(text, "Hello, world!<|endoftext|>");
    vo_free(text);
    text = vo_tokenizer_decode(tokenizers[1], ids, 0);
    assert_string_equal(text, "");
    vo_free(text);
    /* The first two bytes of a character of three, then a letter: one replacement. */
    static const int32_t broken[] = {168, 98, 64};
    text = vo_tokenizer_decode(tokenizers[1], broken, 3);
    assert_string_equal(text, "\xef\xbf\xbd"
                              "a");
    vo_free(text);
    size_t size;
    assert_string_equal(vo_tokenizer_token(tokenizers[0], 995, &size), " world");
    assert_int_equal(size, 6);
    assert_string_equal(vo_tokenizer_token(tokenizers[0], 995, NULL), " world");
}

/* Every byte string comes back byte by byte. */
static void keeps_invalid_bytes(void **state) {
    unsigned char bytes[2048];
    uint32_t seed = 12345;
    for (size_t i = 0; i < sizeof bytes; i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = (unsigned char)(seed >> 24);
    }
    for (int k = 0; k < 2; k++) {
        vo_error err = {0};
        int32_t *ids;
        int n;
        assert_int_equal(
            vo_tokenizer_encode(tokenizers[k], (char *)bytes, sizeof bytes, &ids, &n, &err), VO_OK);
        size_t pos = 0;
        for (int i = 0; i < n; i++) {
            size_t size;
            const char *token = vo_tokenizer_token(tokenizers[k], ids[i], &size);
            assert_true(size > 0 && pos + size <= sizeof bytes);
            assert_memory_equal(token, bytes + pos, size);
            pos += size;
        }
        assert_int_equal(pos, sizeof bytes);
        vo_free(ids);
    }
}

static double encode_run(char c, size_t size, int *n) {
    char *text = vo_alloc(size);
    vo_error err = {0};
    int32_t *ids;
    assert_non_null(text);
    memset(text, c, size);
    double start = vo_clock_seconds();
    assert_int_equal(vo_tokenizer_encode(tokenizers[1], text, size, &ids, n, &err), VO_OK);
    double seconds = vo_clock_seconds() - start;
    vo_free(ids);
    vo_free(text);
    return seconds;
}

/* A megabyte without a border takes well under a second; a quadratic merge takes hours. */
static void encodes_long_runs_fast(void **state) {
    static const char runs[] = {'a', ' ', '-', '7', '\xff'};
    int n;
    for (size_t i = 0; i < sizeof runs; i++) {
        assert_true(encode_run(runs[i], 1000000, &n) < 20);
        assert_true(n > 0 && n <= 1000000);
    }
    assert_true(encode_run('a', 0, &n) < 1);
    assert_int_equal(n, 0);
}

static void splits_like_the_pattern(void **state) {
    static const char *const cases[][8] = {
        {"it's 12th", "it", "'s", " 12", "th"},
        {"''s", "''", "s"},
        {"a  \n b", "a", "  \n", " b"},
        {"a \n", "a", " \n"},
        {"x\tyz", "x", "\t", "yz"},
        {"we'll'LL", "we", "'ll", "'", "LL"},
        {"\xff\xfe!a", "\xff\xfe!", "a"},
        {"  ", "  "},
        {"'", "'"},
        {"'r", "'", "r"},
        {" \xc2\xbd\xe0\xa5\xa7!", " \xc2\xbd\xe0\xa5\xa7",
         "!"}, /* vulgar fraction, devanagari 1 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = cases[i][0];
        size_t pos = 0, size = strlen(text);
        for (int k = 1; k < 8 && cases[i][k]; k++) {
            size_t length = vo_split_gpt2(text + pos, size - pos);
            assert_int_equal(length, strlen(cases[i][k]));
            assert_memory_equal(text + pos, cases[i][k], length);
            pos += length;
        }
        assert_int_equal(pos, size);
    }
}

static void refuses_damaged_vocabularies(void **state) {
    static const char *const files[] = {"IQ== 0\nIg== 2\n", "IQ== 0\nIg==\n",
                                        "IQ== 0\nIg== 1",   "*\n",
                                        "IQ== x\n",         "IQ== 99999999999\n"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        vo_bpe bpe;
        vo_error err = {0};
        assert_int_equal(vo_bpe_load(&bpe, files[i], strlen(files[i]), 0, &err), VO_ERR_FORMAT);
        assert_true(err.message[0] != '\0');
    }
    vo_bpe bpe;
    assert_int_equal(vo_bpe_load(&bpe, "IQ== 0\nIg== 1\n", 14, 1, NULL), VO_OK);
    assert_int_equal(vo_bpe_rank(&bpe, "\"", 1), 1);
    assert_int_equal(vo_bpe_rank(&bpe, "#", 1), -1);
    assert_true(vo_bpe_add_special(&bpe, "<s>"));
    assert_false(vo_bpe_add_special(&bpe, "<t>"));
    assert_int_equal(vo_bpe_rank(&bpe, "<s>", 3), -1);
    /* A byte that the vocabulary lacks is an error, not a wrong id. */
    vo_bpe_scratch scratch = {0};
    int32_t ids[2];
    int n;
    vo_error err = {0};
    assert_int_equal(vo_bpe_encode(&bpe, "!a", 2, &scratch, ids, &n, &err), VO_ERR_INTERNAL);
    vo_bpe_scratch_free(&scratch);
    vo_bpe_free(&bpe);
}

static void finds_languages(void **state) {
    json_t *golden = load_json("tests/data/text/languages.json"), *name;
    const char *code;
    int index = 0;
    json_object_foreach(golden, code, name) {
        assert_string_equal(vo_language_code(index), code);
        assert_string_equal(vo_language_name(index), json_string_value(name));
        assert_int_equal(vo_language_find(code), index);
        assert_int_equal(vo_language_find(json_string_value(name)), index);
        index++;
    }
    assert_int_equal(index, 100);
    json_decref(golden);
    static const char *const aliases[][2] = {
        {"burmese", "my"},  {"valencian", "ca"},      {"flemish", "nl"},   {"haitian", "ht"},
        {"pushto", "ps"},   {"letzeburgesch", "lb"},  {"panjabi", "pa"},   {"moldavian", "ro"},
        {"moldovan", "ro"}, {"sinhalese", "si"},      {"castilian", "es"}, {"mandarin", "zh"},
        {"ENGLISH", "en"},  {"Haitian Creole", "ht"}, {"YUE", "yue"},      {"Castilian", "es"},
    };
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        assert_string_equal(vo_language_code(vo_language_find(aliases[i][0])), aliases[i][1]);
    assert_int_equal(vo_language_find(""), -1);
    assert_int_equal(vo_language_find("e"), -1);
    assert_int_equal(vo_language_find("englishh"), -1);
    assert_int_equal(vo_language_find(NULL), -1);
    assert_null(vo_language_code(-1));
    assert_null(vo_language_name(100));
}

/* The texts that the real models produced come back from their ids. */
static void check_round_trip(void *user, const char *text) {
    for (int k = 0; k < 2; k++) {
        vo_error err = {0};
        int32_t *ids;
        int n;
        assert_int_equal(vo_tokenizer_encode(tokenizers[k], text, strlen(text), &ids, &n, &err),
                         VO_OK);
        char *back = vo_tokenizer_decode(tokenizers[k], ids, n);
        assert_string_equal(back, text);
        vo_free(back);
        vo_free(ids);
    }
    ++*(int *)user;
}

/* A recorded run holds the ids of its segments and the text of them all. */
static void check_run(const json_t *run) {
    vo_buf all = {0};
    json_t *segment, *id;
    size_t i, k;
    json_array_foreach(json_object_get(run, "segments"), i, segment) {
        json_array_foreach(json_object_get(segment, "tokens"), k, id) {
            int32_t value = (int32_t)json_integer_value(id);
            vo_buf_append(&all, &value, sizeof value);
        }
    }
    assert_false(all.failed);
    char *text = vo_tokenizer_decode(tokenizers[1], (const int32_t *)(const void *)all.data,
                                     (int)(all.size / sizeof(int32_t)));
    assert_string_equal(text, get_string(run, "text"));
    vo_free(text);
    vo_buf_free(&all);
}

static void decodes_real_transcripts(void **state) {
    char path[1024];
    json_t *runs = load_json(test_data("golden/whisper_real/base.json", path)), *file;
    int n_texts = 0, n_runs = 0;
    size_t i;
    visit_texts(runs, check_round_trip, &n_texts);
    json_array_foreach(json_object_get(runs, "files"), i, file) {
        const json_t *run = json_object_get(file, "greedy");
        if (!run) continue;
        check_run(run);
        n_runs++;
    }
    assert_true(n_texts > 100 && n_runs >= 72);
    print_message("%d texts, %d runs with ids and text\n", n_texts, n_runs);
    json_decref(runs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_as_reference),
        cmocka_unit_test(encodes_random_as_reference),
        cmocka_unit_test(special_ids_as_reference),
        cmocka_unit_test(refuses_foreign_sizes),
        cmocka_unit_test(decodes_any_ids),
        cmocka_unit_test(keeps_invalid_bytes),
        cmocka_unit_test(encodes_long_runs_fast),
        cmocka_unit_test(splits_like_the_pattern),
        cmocka_unit_test(refuses_damaged_vocabularies),
        cmocka_unit_test(finds_languages),
        cmocka_unit_test(decodes_real_transcripts),
    };
    return cmocka_run_group_tests(tests, create_all, destroy_all);
}
