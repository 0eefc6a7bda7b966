/* SPDX-License-Identifier: MIT
 *
 * WAV as it is written, broken and cut in the wild. Headers are written by hand here; the
 * values of the codings are checked against libsndfile.
 */
#include "support_audio.h"

#include <math.h>
#include <unistd.h>

#include "base/clock.h"

enum { N = 16000 }; /* one second is enough to see that the samples are right */

static void assert_jfk(const vo_audio *audio, int n) {
    assert_int_equal(audio->n_samples, n);
    assert_memory_equal(audio->samples, jfk(), (size_t)n * sizeof(float));
}

static void test_exact(void **state) {
    vo_buf buf = {0};
    put_jfk_wav(&buf, JFK_SAMPLES);
    vo_audio audio = must_load(&buf);
    assert_jfk(&audio, JFK_SAMPLES);
    assert_int_equal(audio.source_rate, 16000);
    assert_int_equal(audio.source_channels, 1);
    assert_true(audio.duration == 11.0);
    assert_string_equal(audio.format, "wav pcm_16");
    assert_string_equal(audio.warning, "");
    vo_audio_free(&audio);
    vo_buf_free(&buf);
    vo_error err = {0};
    assert_int_equal(vo_audio_load("tests/data/audio/jfk.wav", NULL, &audio, &err), VO_OK);
    assert_jfk(&audio, JFK_SAMPLES);
    assert_string_equal(audio.warning, "");
    vo_audio_free(&audio);
}

/* Chunks before fmt, between, and of odd sizes, with and without their padding. */
static void test_foreign_chunks(void **state) {
    static const char junk[29] = "what a recorder leaves here.";
    for (int variant = 0; variant < 4; variant++) {
        vo_buf buf = {0};
        vo_buf_append(&buf, "RIFF\0\0\0\0WAVE", 12);
        put_chunk(&buf, "JUNK", junk, 28);
        if (variant & 1) {
            put_chunk(&buf, "bext", junk, 27);
            if (variant & 2) buf.size--; /* the zero byte of padding is left out */
        }
        put_fmt(&buf, 1, 1, 16000, 16);
        put_chunk(&buf, "LIST", junk, 25);
        if (variant & 2) buf.size--;
        put_chunk(&buf, "data", jfk_pcm(), N * 2);
        put_chunk(&buf, "id3 ", junk, 28);
        vo_audio audio = must_load(&buf);
        assert_jfk(&audio, N);
        assert_string_equal(audio.warning, "");
        vo_audio_free(&audio);
        vo_buf_free(&buf);
    }
}

static void test_codings_against_libsndfile(void **state) {
    static const struct {
        int format;
        const char *name;
    } codings[] = {
        {SF_FORMAT_WAV | SF_FORMAT_PCM_U8, "wav pcm_u8"},
        {SF_FORMAT_WAV | SF_FORMAT_PCM_16, "wav pcm_16"},
        {SF_FORMAT_WAV | SF_FORMAT_PCM_24, "wav pcm_24"},
        {SF_FORMAT_WAV | SF_FORMAT_PCM_32, "wav pcm_32"},
        {SF_FORMAT_WAV | SF_FORMAT_FLOAT, "wav float32"},
        {SF_FORMAT_WAV | SF_FORMAT_DOUBLE, "wav float64"},
        {SF_FORMAT_WAV | SF_FORMAT_ULAW, "wav mulaw"},
        {SF_FORMAT_WAV | SF_FORMAT_ALAW, "wav alaw"},
        {SF_FORMAT_WAVEX | SF_FORMAT_PCM_U8, "wav pcm_u8"},
        {SF_FORMAT_WAVEX | SF_FORMAT_PCM_24, "wav pcm_24"},
        {SF_FORMAT_WAVEX | SF_FORMAT_FLOAT, "wav float32"},
        {SF_FORMAT_WAVEX | SF_FORMAT_ULAW, "wav mulaw"},
        {SF_FORMAT_RF64 | SF_FORMAT_PCM_16, "wav pcm_16"},
        {SF_FORMAT_W64 | SF_FORMAT_PCM_24, "wav pcm_24"},
        {SF_FORMAT_W64 | SF_FORMAT_ALAW, "wav alaw"},
    };
    for (size_t i = 0; i < sizeof(codings) / sizeof(codings[0]); i++) {
        vo_buf buf = {0};
        encode(&buf, codings[i].format, 16000, 1, jfk(), N);
        vo_audio audio = must_load(&buf);
        assert_string_equal(audio.format, codings[i].name);
        assert_int_equal(audio.n_samples, N);
        assert_string_equal(audio.warning, "");
        const char *path = temp_file("coding", &buf);
        SF_INFO info = {0};
        SNDFILE *file = sf_open(path, SFM_READ, &info);
        assert_non_null(file);
        static float wanted[N];
        assert_int_equal(sf_read_float(file, wanted, N), N);
        sf_close(file);
        if (max_difference(audio.samples, wanted, N) != 0)
            fail_msg("%s differs by %g", codings[i].name, max_difference(audio.samples, wanted, N));
        vo_audio_free(&audio);
        vo_buf_free(&buf);
    }
}

/* Every code of both laws against libsndfile, so that no corner of the tables is left out. */
static void test_every_companded_code(void **state) {
    for (int tag = 6; tag <= 7; tag++) {
        vo_buf buf = {0};
        unsigned char codes[256];
        for (int i = 0; i < 256; i++) codes[i] = (unsigned char)i;
        put_wav_head(&buf, tag, 1, 16000, 8, 256);
        vo_buf_append(&buf, codes, 256);
        vo_audio audio = must_load(&buf);
        SF_INFO info = {0};
        SNDFILE *file = sf_open(temp_file("codes", &buf), SFM_READ, &info);
        assert_non_null(file);
        float wanted[256];
        assert_int_equal(sf_read_float(file, wanted, 256), 256);
        sf_close(file);
        assert_memory_equal(audio.samples, wanted, sizeof(wanted));
        vo_audio_free(&audio);
        vo_buf_free(&buf);
    }
}

static void test_adpcm_and_gsm(void **state) {
    static const int formats[] = {SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM,
                                  SF_FORMAT_WAV | SF_FORMAT_MS_ADPCM,
                                  SF_FORMAT_WAV | SF_FORMAT_GSM610};
    static const char *const names[] = {"wav ima_adpcm", "wav ms_adpcm", "wav gsm610"};
    for (int i = 0; i < 3; i++) {
        vo_buf buf = {0};
        encode(&buf, formats[i], 16000, 1, jfk(), 3 * N);
        vo_audio audio = must_load(&buf);
        assert_string_equal(audio.format, names[i]);
        assert_true(audio.n_samples >= 3 * N && audio.n_samples < 3 * N + 2000);
        assert_true(correlation(audio.samples, audio.n_samples, jfk(), 3 * N, 0) > 0.95);
        vo_audio_free(&audio);
        vo_buf_free(&buf);
    }
}

/* 24 bits in 32, and 12 in 16: the container's full scale counts. */
static void test_wide_containers(void **state) {
    vo_buf buf = {0};
    vo_buf_append(&buf, "RIFF\0\0\0\0WAVEfmt ", 16);
    put32(&buf, 40);
    put16(&buf, 0xFFFE);
    put16(&buf, 1);
    put32(&buf, 16000);
    put32(&buf, 64000);
    put16(&buf, 4);
    put16(&buf, 32);
    put16(&buf, 22);
    put16(&buf, 24); /* valid bits */
    put32(&buf, 4);
    vo_buf_append(&buf, "\1\0\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71", 16);
    vo_buf_append(&buf, "data\x08\0\0\0\0\1\2\x40\0\0\0\x80", 16);
    vo_audio audio = must_load(&buf);
    assert_int_equal(audio.n_samples, 2);
    assert_true(audio.samples[0] == (float)0x40020100 / 2147483648.0f);
    assert_true(audio.samples[1] == -1.0f);
    vo_audio_free(&audio);
    vo_buf_free(&buf);
}

static void test_sizes_that_lie(void **state) {
    static const struct {
        uint32_t size;
        const char *warning;
    } cases[] = {
        {N * 2, ""},
        {N * 2 + 1000, "the header promises 33000 bytes of sound and the file has 32000"},
        {0x7FFFFFF0u, ""},
        {0x7FFFF024u, ""},
        {0xFFFFFFFFu, ""},
        {0, "the header was never completed, everything was read"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        vo_buf buf = {0};
        put_wav_head(&buf, 1, 1, 16000, 16, cases[i].size);
        vo_buf_append(&buf, jfk_pcm(), N * 2);
        vo_audio audio = must_load(&buf);
        assert_jfk(&audio, N);
        assert_string_equal(audio.warning, cases[i].warning);
        vo_audio_free(&audio);
        vo_error err = {0};
        assert_int_equal(vo_audio_load(temp_file("lie.wav", &buf), NULL, &audio, &err), VO_OK);
        assert_jfk(&audio, N);
        assert_string_equal(audio.warning, cases[i].warning);
        vo_audio_free(&audio);
        vo_buf_free(&buf);
    }
}

/* A size of 64 bits is read whole; one of 32 bits that has wrapped ends nothing. */
static void test_more_than_4_gib(void **state) {
    vo_buf buf = {0};
    vo_audio audio;
    vo_error err = {0};
    vo_buf_append(&buf, "RF64\xff\xff\xff\xffWAVEds64\x1c\0\0\0", 20);
    for (int i = 0; i < 3; i++) { /* sizes of file, data and samples */
        put32(&buf, i < 2 ? 0x40000000 : 0xA0000000);
        put32(&buf, i < 2);
    }
    put32(&buf, 0); /* no table */
    put_fmt(&buf, 1, 1, 16000, 16);
    vo_buf_append(&buf, "data\xff\xff\xff\xff", 8);
    vo_buf_append(&buf, jfk_pcm(), N * 2);
    audio = must_load(&buf);
    assert_jfk(&audio, N);
    assert_string_equal(audio.warning,
                        "the header promises 5368709120 bytes of sound and the file has 32000");
    vo_audio_free(&audio);
    vo_buf_free(&buf);

    vo_audio_params params = vo_audio_default_params();
    params.max_seconds = 2;
    put_jfk_wav(&buf, N);
    const char *path = temp_file("wrapped.wav", &buf);
    assert_int_equal(vo_audio_load(path, &params, &audio, &err), VO_OK);
    vo_audio_free(&audio);
    if (truncate(path, (off_t)buf.size + ((off_t)1 << 32)) != 0) skip(); /* a small disk */
    assert_int_equal(vo_audio_load(path, &params, &audio, &err), VO_ERR_LIMIT);
    vo_buf_free(&buf);
    assert_int_equal(remove(path), 0);
}

static void test_odd_data(void **state) {
    vo_buf buf = {0};
    put_wav_head(&buf, 1, 1, 16000, 16, N * 2 + 1);
    vo_buf_append(&buf, jfk_pcm(), N * 2);
    vo_buf_append(&buf, "x", 1);
    vo_audio audio = must_load(&buf);
    assert_jfk(&audio, N);
    assert_string_equal(audio.warning, "it ends in the middle of a sample");
    vo_audio_free(&audio);
    vo_buf_free(&buf);
}

static void test_no_samples(void **state) {
    vo_buf buf = {0};
    put_wav_head(&buf, 1, 1, 16000, 16, 0);
    vo_audio audio = must_load(&buf);
    assert_int_equal(audio.n_samples, 0);
    assert_non_null(audio.samples);
    assert_string_equal(audio.warning, "the file holds no samples");
    vo_audio_free(&audio);
    vo_buf_free(&buf);
}

static void test_headers_to_refuse(void **state) {
    static const struct {
        int tag, channels;
        uint32_t rate;
        int bits;
        vo_status status;
        const char *part;
    } cases[] = {
        {1, 0, 16000, 16, VO_ERR_FORMAT, "0 channels"},
        {1, 65535, 16000, 16, VO_ERR_FORMAT, "65535 channels"},
        {1, 1, 0, 16, VO_ERR_FORMAT, "rate of 0 Hz"},
        {1, 1, 1, 16, VO_ERR_FORMAT, "rate of 1 Hz"},
        {3, 2, 655350000, 32, VO_ERR_FORMAT, "rate of 655350000 Hz"},
        {1, 1, 0x80000000u, 16, VO_ERR_FORMAT, "rate of 2147483648 Hz"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        vo_buf buf = {0};
        put_wav_head(&buf, cases[i].tag, cases[i].channels, cases[i].rate, cases[i].bits, 2000);
        vo_buf_append(&buf, jfk_pcm(), 2000);
        must_refuse(&buf, cases[i].status, cases[i].part);
        vo_buf_free(&buf);
    }
    vo_buf buf = {0};
    vo_buf_append(&buf, "RIFF\0\0\0\0WAVE", 12);
    must_refuse(&buf, VO_ERR_FORMAT, "without sound");
    put_chunk(&buf, "data", jfk_pcm(), 100);
    must_refuse(&buf, VO_ERR_FORMAT, "without a format chunk");
    buf.size = 12;
    put_chunk(&buf, "fmt ", "\1\0\1\0", 4);
    must_refuse(&buf, VO_ERR_FORMAT, "format chunk has 4 bytes");
    vo_buf_free(&buf);
}

/* A block size of zero, or one that contradicts the bits, is worked out anew. */
static void test_wrong_block_size(void **state) {
    static const int blocks[] = {0, 1, 3, 65535};
    for (int i = 0; i < 4; i++) {
        vo_buf buf = {0};
        put_jfk_wav(&buf, N);
        buf.data[32] = (char)(blocks[i] & 255);
        buf.data[33] = (char)(blocks[i] >> 8);
        if (blocks[i] == 3) buf.data[32] = 1;
        vo_audio audio = must_load(&buf);
        assert_jfk(&audio, N);
        vo_audio_free(&audio);
        vo_buf_free(&buf);
    }
}

/* Every beginning of a file gives samples or a sentence, never a crash; after the header, what
 * is there is read. */
static void test_every_prefix(void **state) {
    vo_buf whole = {0};
    put_jfk_wav(&whole, 100);
    for (size_t n = 0; n < whole.size; n++) {
        vo_buf buf = {0};
        vo_buf_append(&buf, whole.data, n);
        vo_audio audio;
        vo_error err;
        vo_status status = load_bytes(&buf, 0, NULL, &audio, &err);
        if (n >= 44) {
            assert_int_equal(status, VO_OK);
            assert_int_equal(audio.n_samples, (n - 44) / 2);
            assert_true(audio.warning[0]);
        } else {
            assert_int_not_equal(status, VO_OK);
            assert_true(err.message[0]);
        }
        vo_audio_free(&audio);
        vo_buf_free(&buf);
    }
    vo_buf_free(&whole);
}

static void test_no_numbers(void **state) {
    static const float values[] = {0.5f, NAN, INFINITY, -INFINITY, 3e38f, -0.25f};
    for (int bits = 32; bits <= 64; bits += 32) {
        vo_buf buf = {0};
        put_wav_head(&buf, 3, 1, 16000, bits, (uint32_t)(6 * bits / 8));
        for (int i = 0; i < 6; i++) {
            double wide = values[i];
            vo_buf_append(&buf, bits == 32 ? (const void *)&values[i] : (const void *)&wide,
                          (size_t)bits / 8);
        }
        vo_audio audio = must_load(&buf);
        static const float wanted[] = {0.5f, 0, 0, 0, 0, -0.25f};
        assert_int_equal(audio.n_samples, 6);
        assert_memory_equal(audio.samples, wanted, sizeof(wanted));
        assert_string_equal(audio.warning, "4 samples were no numbers and became silence");
        vo_audio_free(&audio);
        vo_buf_free(&buf);
    }
}

static void test_streams_in_pieces(void **state) {
    static const size_t pieces[] = {1, 7, 4096};
    vo_buf wav = {0}, flac = {0};
    put_jfk_wav(&wav, 2000);
    encode(&flac, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, jfk(), 2000);
    for (int i = 0; i < 3; i++) {
        vo_audio audio;
        vo_error err;
        assert_int_equal(load_bytes(&wav, pieces[i], NULL, &audio, &err), VO_OK);
        assert_jfk(&audio, 2000);
        vo_audio_free(&audio);
        assert_int_equal(load_bytes(&flac, pieces[i], NULL, &audio, &err), VO_OK);
        assert_jfk(&audio, 2000);
        vo_audio_free(&audio);
    }
    vo_buf_free(&wav);
    vo_buf_free(&flac);
}

static void test_raw(void **state) {
    vo_audio_params params = vo_audio_default_params();
    vo_buf buf = {0};
    vo_audio audio;
    vo_error err;
    vo_buf_append(&buf, jfk_pcm(), N * 2);
    params.raw_rate = 16000;
    params.raw_channels = 1;
    assert_int_equal(load_bytes(&buf, 1000, &params, &audio, &err), VO_OK);
    assert_jfk(&audio, N);
    assert_string_equal(audio.format, "raw pcm_16");
    vo_audio_free(&audio);
    vo_error file_err = {0};
    assert_int_equal(vo_audio_load(temp_file("raw", &buf), &params, &audio, &file_err), VO_OK);
    assert_jfk(&audio, N);
    vo_audio_free(&audio);
    params.raw_format = VO_RAW_F32LE;
    vo_buf_clear(&buf);
    vo_buf_append(&buf, jfk(), N * 4);
    vo_buf_append(&buf, "abc", 3);
    assert_int_equal(load_bytes(&buf, 0, &params, &audio, &err), VO_OK);
    assert_jfk(&audio, N);
    assert_string_equal(audio.warning, "it ends in the middle of a sample");
    vo_audio_free(&audio);
    params.raw_format = 99;
    assert_int_equal(load_bytes(&buf, 0, &params, &audio, &err), VO_ERR_ARGUMENT);
    vo_buf_free(&buf);
}

static void test_limits(void **state) {
    vo_audio_params params = vo_audio_default_params();
    vo_buf buf = {0};
    vo_audio audio;
    vo_error err;
    put_jfk_wav(&buf, JFK_SAMPLES);
    params.max_seconds = 10.9;
    assert_int_equal(load_bytes(&buf, 0, &params, &audio, &err), VO_ERR_LIMIT);
    assert_non_null(strstr(err.message, "longer than the limit"));
    params.max_seconds = 11.1;
    assert_int_equal(load_bytes(&buf, 0, &params, &audio, &err), VO_OK);
    vo_audio_free(&audio);
    /* A header that promises the world makes nobody reserve it. */
    vo_buf_clear(&buf);
    encode(&buf, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, jfk(), N);
    params.max_bytes = 1000;
    assert_int_equal(load_bytes(&buf, 0, &params, &audio, &err), VO_ERR_LIMIT);
    assert_non_null(strstr(err.message, "more than 1000 bytes"));
    vo_buf_free(&buf);
    vo_buf_append(&buf, "RIFF\0\0\0\0WAVEJUNK\xf0\xff\xff\x6f", 20);
    for (int i = 0; i < 5000; i++) vo_buf_append(&buf, "junk", 4);
    assert_int_equal(load_bytes(&buf, 0, &params, &audio, &err), VO_ERR_FORMAT);
    vo_buf_free(&buf);
}

typedef struct endless {
    int64_t left;
    bool breaks;
} endless;

static int64_t read_endless(void *user, void *data, size_t size) {
    endless *e = user;
    if (e->left == 0) return e->breaks ? -1 : 0;
    if ((int64_t)size > e->left) size = (size_t)e->left;
    memset(data, 1, size);
    e->left -= (int64_t)size;
    return (int64_t)size;
}

/* The address sanitizer keeps freed memory for a while, so nothing can be said about it. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEPS_FREED_MEMORY 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define KEEPS_FREED_MEMORY 1
#endif
#if !defined(KEEPS_FREED_MEMORY)
#define KEEPS_FREED_MEMORY 0
#endif

/* Twenty minutes from a pipe: the result, one block more, and nothing else. */
static void test_flat_memory(void **state) {
    endless e = {.left = 20 * 60 * 32000LL};
    vo_source source = {read_endless, &e, "endless"};
    vo_audio_params params = vo_audio_default_params();
    vo_audio audio;
    vo_error err = {0};
    params.raw_rate = 16000;
    const unsigned long long before = vo_process_peak_rss();
    assert_int_equal(vo_audio_load_source(&source, &params, &audio, &err), VO_OK);
    const unsigned long long grown = vo_process_peak_rss() - before;
    assert_int_equal(audio.n_samples, 20 * 60 * 16000);
    const unsigned long long result = (unsigned long long)audio.n_samples * sizeof(float);
    if (before && !KEEPS_FREED_MEMORY && grown > result + (24u << 20))
        fail_msg("%llu bytes of samples took %llu bytes of memory", result, grown);
    for (int64_t i = 0; i < audio.n_samples; i++)
        if (audio.samples[i] != 257.0f / 32768.0f) fail_msg("sample %lld", (long long)i);
    vo_audio_free(&audio);
}

static void test_source_that_breaks(void **state) {
    vo_audio_params params = vo_audio_default_params();
    vo_audio audio;
    vo_error err = {0};
    endless e = {.left = 3200, .breaks = true};
    vo_source source = {read_endless, &e, "broken pipe"};
    params.raw_rate = 16000;
    assert_int_equal(vo_audio_load_source(&source, &params, &audio, &err), VO_ERR_IO);
    assert_null(audio.samples);
    assert_string_equal(err.message, "broken pipe: reading it failed");
    err = (vo_error){0};
    params.raw_rate = 0;
    assert_int_equal(vo_audio_load_source(&source, &params, &audio, &err), VO_ERR_IO);
    assert_non_null(strstr(err.message, "broken pipe"));
}

static int cleanup(void **state) {
    temp_cleanup();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flat_memory),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_foreign_chunks),
        cmocka_unit_test(test_codings_against_libsndfile),
        cmocka_unit_test(test_every_companded_code),
        cmocka_unit_test(test_adpcm_and_gsm),
        cmocka_unit_test(test_wide_containers),
        cmocka_unit_test(test_sizes_that_lie),
        cmocka_unit_test(test_more_than_4_gib),
        cmocka_unit_test(test_odd_data),
        cmocka_unit_test(test_no_samples),
        cmocka_unit_test(test_headers_to_refuse),
        cmocka_unit_test(test_wrong_block_size),
        cmocka_unit_test(test_every_prefix),
        cmocka_unit_test(test_no_numbers),
        cmocka_unit_test(test_streams_in_pieces),
        cmocka_unit_test(test_raw),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_source_that_breaks),
    };
    return cmocka_run_group_tests(tests, NULL, cleanup);
}
