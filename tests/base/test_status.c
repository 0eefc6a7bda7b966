/* SPDX-License-Identifier: MIT
 *
 * Error sentences and log lines: the first error stays, long ones end at a whole character.
 */
#include "base/clock.h"
#include "base/harness.h"
#include "base/log.h"
#include "base/system.h"
#include "base/utf8.h"

#include <errno.h>
#include <string.h>

static void first_error_wins(void **state) {
    vo_error err = {0};
    assert_int_equal(vo_fail(&err, VO_ERR_FORMAT, "bad %s %d", "block", 7), VO_ERR_FORMAT);
    assert_int_equal(vo_fail(&err, VO_ERR_MEMORY, "later"), VO_ERR_MEMORY);
    assert_int_equal(err.status, VO_ERR_FORMAT);
    assert_string_equal(err.message, "bad block 7");
    assert_int_equal(vo_fail(NULL, VO_ERR_IO, "nobody listens"), VO_ERR_IO);
}

static void long_sentence_ends_at_a_character(void **state) {
    for (size_t shift = 0; shift < 4; shift++) {
        char text[1000] = "abc";
        size_t n = shift;
        while (n + 4 < sizeof text) {
            memcpy(text + n, "\xf0\x9f\x98\x80", 5);
            n += 4;
        }
        vo_error err = {0};
        vo_fail(&err, VO_ERR_ARGUMENT, "%s", text);
        size_t len = strlen(err.message);
        assert_true(vo_utf8_valid(err.message, len));
        assert_in_range(len, sizeof err.message - 4, sizeof err.message - 1);
        assert_memory_equal(err.message, text, len);
    }
}

static void system_errors_have_a_kind(void **state) {
    vo_error err = {0};
    assert_int_equal(vo_fail_system(&err, ENOENT, "cannot open", "/x"), VO_ERR_NOT_FOUND);
    assert_string_equal(err.message, "cannot open /x: No such file or directory");
    assert_int_equal(vo_fail_system(NULL, ENOMEM, "a", "b"), VO_ERR_MEMORY);
    assert_int_equal(vo_fail_system(NULL, EACCES, "a", "b"), VO_ERR_IO);
}

static void every_status_has_its_name(void **state) {
    for (int i = VO_OK; i <= VO_ERR_INTERNAL; i++) {
        const char *name = vo_status_name((vo_status)i);
        assert_true(name != NULL && name[0] != '\0');
        for (int j = VO_OK; j < i; j++) assert_string_not_equal(name, vo_status_name((vo_status)j));
    }
    assert_non_null(vo_status_name((vo_status)99));
}

typedef struct heard {
    int lines;
    vo_log_level level;
    char text[2048];
} heard;

static void hear(void *user, vo_log_level level, const char *line) {
    heard *h = user;
    h->lines++;
    h->level = level;
    strcpy(h->text, line);
}

static void log_filters_and_cleans(void **state) {
    heard h = {0};
    vo_log log = {.fn = hear, .user = &h, .level = VO_LOG_INFO}, silent = {0};
    vo_log_line(&log, VO_LOG_DEBUG, "hidden");
    vo_log_line(&silent, VO_LOG_ERROR, "nowhere");
    vo_log_line(NULL, VO_LOG_ERROR, "nowhere");
    assert_int_equal(h.lines, 0);
    vo_log_line(&log, VO_LOG_WARN, "two\nlines %d\n", 5);
    assert_int_equal(h.lines, 1);
    assert_int_equal(h.level, VO_LOG_WARN);
    assert_string_equal(h.text, "two lines 5");
    char text[3000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    vo_log_line(&log, VO_LOG_ERROR, "%s", text);
    assert_int_equal(strlen(h.text), 1023);
}

static void clock_moves_forward(void **state) {
    double begin = vo_clock_seconds(), now = begin;
    for (int i = 0; i < 100000000 && now == begin; i++) now = vo_clock_seconds();
    assert_true(now > begin);
    assert_true(now - begin < 60);
    assert_in_range(vo_process_peak_rss(), 100 << 10, (uint64_t)1 << 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_error_wins),
        cmocka_unit_test(long_sentence_ends_at_a_character),
        cmocka_unit_test(system_errors_have_a_kind),
        cmocka_unit_test(every_status_has_its_name),
        cmocka_unit_test(log_filters_and_cleans),
        cmocka_unit_test(clock_moves_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
