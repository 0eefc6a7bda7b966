/* SPDX-License-Identifier: MIT
 *
 * Graphemes, columns, breaks and stops. Expected values are those of UAX #29 and #11, of JIS X
 * 4051, and of how people write.
 */
#include "text/lines.h"

#include "text/support_text.h"

static void test_graphemes(void **state) {
    static const struct {
        const char *text; /* one grapheme, then "x" */
        int code_points, columns;
    } cases[] = {
        {"a", 1, 1},
        {"e\xcc\x81", 2, 1},                            /* with an accent */
        {"\xcc\x81", 1, 0},                             /* an accent alone */
        {"\xe4\xbb\x8a", 1, 2},                         /* a Han character */
        {"\xef\xbd\xb1", 1, 1},                         /* katakana of half width */
        {"\xef\xbc\xa1", 1, 2},                         /* A of full width */
        {"\xed\x95\x9c", 1, 2},                         /* a Hangul syllable */
        {"\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", 3, 2}, /* the same in letters */
        {"\xe3\x81\x8b\xe3\x82\x99", 2, 2},             /* ka with a voicing mark */
        {"\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", 2, 2},     /* a flag */
        {"\xe2\x9d\xa4\xef\xb8\x8f", 2, 2},             /* a heart as a picture */
        {"\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7", 5, 2},
        {"\xd7\xa9\xd7\x81", 2, 1}, /* Hebrew with a point */
        {"\r\n", 2, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        size_t size = strlen(cases[i].text);
        snprintf(text, sizeof text, "y%sx", cases[i].text);
        vo_grapheme g = vo_grapheme_at(text, size + 2, 1);
        assert_int_equal(g.size, size);
        assert_int_equal(g.code_points, cases[i].code_points);
        assert_int_equal(g.columns, cases[i].columns);
        g = vo_grapheme_at(text, size + 2, size + 1);
        assert_true(g.size == 1 && g.first == 'x' && g.last == 'x');
    }
}

static void test_breaks(void **state) {
    static const struct {
        uint32_t before, after;
        bool may;
    } cases[] = {
        {'a', 'b', false},       {'a', '-', false},       {0x4eca, 0x65e5, true},
        {0x4eca, 'a', true},     {'1', 0x65e5, true},     {0x4eca, 0x3002, false}, /* full stop */
        {0x4eca, 0x300d, false}, {0x300c, 0x4eca, false}, {0x3002, 0x4eca, true},  /* brackets */
        {0x3042, 0x3063, false}, {0x30a2, 0x30fc, false}, {0x304b, 0x3099, false}, /* small, long */
        {0x4eca, '"', false},    {'"', 0x4eca, false},    {0x0e01, 0x0e02, true},
        {0x0e40, 0x0e01, false}, {0x0e01, 0x0e30, false}, {0x0e01, 0x0e34, false}, /* Thai vowels */
        {0xd55c, 0xad6d, false}, {0x05d0, 0x05d1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(vo_may_break(cases[i].before, cases[i].after), cases[i].may);
}

static void test_stops(void **state) {
    static const struct {
        const char *text;
        uint32_t next;
        vo_stop stop;
    } cases[] = {
        {"word", 'W', VO_STOP_NONE},
        {"word.", 'W', VO_STOP_SENTENCE},
        {"word.", 'w', VO_STOP_CLAUSE},
        {"word.", 0, VO_STOP_SENTENCE},
        {"word,", 'w', VO_STOP_CLAUSE},
        {"(word.)\"", 'W', VO_STOP_SENTENCE},
        {"word?\xe2\x80\x9d", 'W', VO_STOP_SENTENCE},
        {"really\xe2\x80\xa6", 0x416, VO_STOP_SENTENCE},
        {"really\xe2\x80\xa6", 0x436, VO_STOP_CLAUSE},
        {"Mr.", 'S', VO_STOP_NONE},
        {"J.", 'S', VO_STOP_CLAUSE},
        {"U.S.", 'S', VO_STOP_CLAUSE},
        {"\xc3\x89.", 'S', VO_STOP_CLAUSE},
        {"caf\xc3\xa9.", 'S', VO_STOP_SENTENCE},
        {"7.", 'S', VO_STOP_SENTENCE},
        {"\xe5\xa4\xa9\xe6\xb0\x97\xe3\x80\x82", 0x4eca, VO_STOP_SENTENCE},
        {"\xe5\xa4\xa9\xe3\x80\x81", 0x4eca, VO_STOP_CLAUSE},
        {"\xd8\x9f", 0x627, VO_STOP_SENTENCE},
        {"\"", 'a', VO_STOP_NONE},
        {".", 'A', VO_STOP_SENTENCE},
        {"", 'A', VO_STOP_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(vo_stop_of(cases[i].text, strlen(cases[i].text), cases[i].next),
                         cases[i].stop);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graphemes),
        cmocka_unit_test(test_breaks),
        cmocka_unit_test(test_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
