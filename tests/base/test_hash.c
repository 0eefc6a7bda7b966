/* SPDX-License-Identifier: MIT
 *
 * SHA-256 against the examples of FIPS 180-4 and its companion.
 */
#include "base/harness.h"
#include "base/hash.h"
#include "base/support_scratch.h"

#include <stdio.h>
#include <string.h>

static const char million_a[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

static void check(const char *text, const char *want) {
    char hex[65];
    for (size_t cut = 0; cut <= strlen(text); cut++) {
        vo_sha256 *hash = vo_sha256_create();
        assert_non_null(hash);
        vo_sha256_update(hash, text, cut);
        vo_sha256_update(hash, NULL, 0);
        vo_sha256_update(hash, text + cut, strlen(text) - cut);
        vo_sha256_finish(hash, hex);
        assert_string_equal(hex, want);
        vo_sha256_destroy(hash);
    }
}

static void published_examples(void **state) {
    check("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    vo_sha256_destroy(NULL);
}

static void whole_files(void **state) {
    char hex[65];
    vo_error err = {0};
    const char *path = scratch_path(*state, "a");
    FILE *file = fopen(path, "wb");
    for (int i = 0; i < 1000000; i++) fputc('a', file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(vo_sha256_file(path, hex, &err), VO_OK);
    assert_string_equal(hex, million_a);
    assert_int_equal(vo_sha256_file(scratch_path(*state, "none"), hex, &err), VO_ERR_NOT_FOUND);
    assert_string_equal(hex, "");
    assert_int_equal(vo_sha256_file(*state, hex, NULL), VO_ERR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_examples),
        cmocka_unit_test_setup_teardown(whole_files, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
