/* SPDX-License-Identifier: MIT
 *
 * The reference is CPython 3: bytes.decode("utf-8", "replace").
 */
#include "base/harness.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>

#define BAD "\xef\xbf\xbd"

static void tricky_cases(void **state) {
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"", ""},
        {"a", "a"},
        {"\xe4\xbd\xa0", "\xe4\xbd\xa0"},
        {"\xef\xbb\xbf", "\xef\xbb\xbf"},
        {"\xc3", BAD},                                         /* cut after 1 of 2 */
        {"\xe2\x82", BAD},                                     /* 2 of 3 */
        {"\xf0\x9f\x98", BAD},                                 /* 3 of 4 */
        {"\xe2\x82\x61", BAD "a"},                             /* broken by ASCII */
        {"\xc0\x80", BAD BAD},                                 /* overlong */
        {"\xe0\x80\xaf", BAD BAD BAD},                         /* overlong */
        {"\xf0\x80\x80\xaf", BAD BAD BAD BAD},                 /* overlong */
        {"\xed\xa0\x80", BAD BAD BAD},                         /* surrogate */
        {"\xed\xa0\x80\xed\xb0\x80", BAD BAD BAD BAD BAD BAD}, /* pair of them */
        {"\xf4\x90\x80\x80", BAD BAD BAD BAD},                 /* U+110000 */
        {"\xf8\x88\x80\x80", BAD BAD BAD BAD},
        {"\xff", BAD},
        {"\x80\xbf", BAD BAD},
        {"\xf0\x9f\x98\x80\xc3", "\xf0\x9f\x98\x80" BAD},
        {"\xc3\xa9\xe9", "\xc3\xa9" BAD},
        {"\xf0\xe2\x82\xac", BAD "\xe2\x82\xac"},
        {"\xc2\xc3\xa9", BAD "\xc3\xa9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n;
        char *out = vo_utf8_sanitize(cases[i].in, strlen(cases[i].in), &n);
        assert_string_equal(out, cases[i].out);
        assert_int_equal(n, strlen(cases[i].out));
        assert_int_equal(vo_utf8_valid(cases[i].in, strlen(cases[i].in)),
                         strcmp(cases[i].in, cases[i].out) == 0);
        vo_free(out);
    }
    size_t n;
    char *out = vo_utf8_sanitize("a\0\xff", 3, &n);
    assert_int_equal(n, 5);
    assert_memory_equal(out, "a\0" BAD, 6);
    vo_free(out);
}

/* Every string of 1 to 4 bytes from those where a range begins or ends. The digest is made by
 *   for k in 1..4: for t in itertools.product(alphabet, repeat=k):
 *       sha256.update(bytes(t).decode("utf-8", "replace").encode() + b"\n")
 */
static void all_boundary_strings_as_python(void **state) {
    static const char alphabet[] = "\x00\x41\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1"
                                   "\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff";
    enum { LETTERS = sizeof alphabet - 1 };
    vo_sha256 *hash = vo_sha256_create();
    for (int length = 1; length <= 4; length++) {
        int count = 1;
        for (int i = 0; i < length; i++) count *= LETTERS;
        for (int i = 0; i < count; i++) {
            char s[4];
            for (int j = length - 1, rest = i; j >= 0; j--, rest /= LETTERS) {
                s[j] = alphabet[rest % LETTERS];
            }
            size_t n;
            char *out = vo_utf8_sanitize(s, (size_t)length, &n);
            assert_true(vo_utf8_valid(out, n));
            vo_sha256_update(hash, out, n);
            vo_sha256_update(hash, "\n", 1);
            vo_free(out);
        }
    }
    char hex[65];
    vo_sha256_finish(hash, hex);
    vo_sha256_destroy(hash);
    assert_string_equal(hex, "d2c3961dfca20cba7777100010e8c0aa0a09c3dd9ca60c92c2a8c2e1a6359696");
}

static void every_code_point_there_and_back(void **state) {
    for (uint32_t cp = 0; cp < 0x110200; cp++) {
        char s[4];
        uint32_t back = 0xdead;
        int n = vo_utf8_put(cp, s);
        bool valid = cp <= 0x10ffff && !(cp >= 0xd800 && cp <= 0xdfff);
        assert_int_equal(n, !valid ? 0 : cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4);
        if (!valid) continue;
        assert_int_equal(vo_utf8_next(s, (size_t)n, &back), n);
        assert_int_equal(back, cp);
        for (int cut = 1; cut < n; cut++) {
            assert_int_equal(vo_utf8_next(s, (size_t)cut, &back), 0);
            assert_int_equal(vo_utf8_incomplete_tail(s, (size_t)cut), cut);
        }
        assert_int_equal(vo_utf8_incomplete_tail(s, (size_t)n), 0);
    }
    assert_int_equal(vo_utf8_put(UINT32_MAX, (char[4]){0}), 0);
    assert_int_equal(vo_utf8_next("", 0, &(uint32_t){0}), 0);
}

static void incomplete_tails(void **state) {
    static const struct {
        const char *s;
        int tail;
    } cases[] = {
        {"", 0},
        {"abc", 0},
        {"abc\xc3", 1},
        {"abc\xc3\xa9", 0},
        {"a\xe2\x82", 2},
        {"a\xf0\x9f\x98", 3},
        {"\xf0\x9f\x98\x80", 0},
        {"\x80\x80\x80", 0},
        {"a\xed\xa0", 0},
        {"a\xe0\x80", 0},
        {"a\xff", 0},
        {"\xe2\x82\xf0", 1},
        {"a\xf4\x90", 0},
        {"a\xf4\x8f\xbf", 3},
        {"\xe2\x82"
         "a",
         0},
        {"\xc1", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(vo_utf8_incomplete_tail(cases[i].s, strlen(cases[i].s)), cases[i].tail);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tricky_cases),
        cmocka_unit_test(all_boundary_strings_as_python),
        cmocka_unit_test(every_code_point_there_and_back),
        cmocka_unit_test(incomplete_tails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
