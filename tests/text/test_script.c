/* SPDX-License-Identifier: MIT
 *
 * Scripts of letters, of which blocks of every language's own alphabet are samples, and what
 * languages are written in.
 */
#include "text/script.h"

#include "text/text.h"
#include "text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

static vo_letters count(const char *text, const char *language) {
    return vo_count_letters(text, strlen(text), vo_language_scripts(vo_language_find(language)));
}

static void test_own_script(void **state) {
    static const char *const greetings[][2] = {{"en", "Good day"},
                                               {"vi", "Xin chào các bạn"},
                                               {"ru", "Добрый день"},
                                               {"el", "Καλημέρα"},
                                               {"hy", "Բարև ձեզ"},
                                               {"he", "שלום"},
                                               {"ar", "مرحبا"},
                                               {"fa", "سلام"},
                                               {"hi", "नमस्ते"},
                                               {"bn", "নমস্কার"},
                                               {"pa", "ਸਤ ਸ੍ਰੀ ਅਕਾਲ"},
                                               {"gu", "નમસ્તે"},
                                               {"ta", "வணக்கம்"},
                                               {"te", "నమస్కారం"},
                                               {"kn", "ನಮಸ್ಕಾರ"},
                                               {"ml", "നമസ്കാരം"},
                                               {"si", "ආයුබෝවන්"},
                                               {"th", "สวัสดี"},
                                               {"lo", "ສະບາຍດີ"},
                                               {"bo", "བཀྲ་ཤིས་"},
                                               {"my", "မင်္ဂလာပါ"},
                                               {"ka", "გამარჯობა"},
                                               {"am", "ሰላም"},
                                               {"km", "សួស្តី"},
                                               {"ja", "こんにちは世界"},
                                               {"zh", "你好"},
                                               {"yue", "你好"},
                                               {"ko", "안녕하세요"},
                                               {"sr", "Добар дан, dobar dan"}};
    for (size_t i = 0; i < sizeof greetings / sizeof *greetings; i++) {
        const vo_letters own = count(greetings[i][1], greetings[i][0]);
        assert_true(own.all > 0);
        assert_int_equal(own.inside, own.all);
        if (i > 1 && strcmp(greetings[i][0], "sr") != 0)
            assert_int_equal(count(greetings[i][1], "en").inside, 0);
    }
}

static void test_counts(void **state) {
    const vo_letters mixed = count("OK, 好的! 123 \xff\xe5", "zh");
    assert_int_equal(mixed.all, 4); /* no digit, no mark, no broken byte */
    assert_int_equal(mixed.inside, 2);
    assert_int_equal(count("", "zh").all, 0);
    assert_int_equal(vo_script_of(0x00d7), 0); /* a multiplication sign among Latin letters */
    assert_int_equal(vo_script_of(0x10ffff), 0);
    assert_int_equal(vo_script_of(0), 0);
    assert_true(vo_script_of('a') == vo_language_scripts(-1));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_own_script),
                                       cmocka_unit_test(test_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
