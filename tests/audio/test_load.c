/* SPDX-License-Identifier: MIT
 *
 * Every format libsndfile reads, whole and damaged, from files, FIFOs and streams; and what is
 * no audio at all.
 */
#include "support_audio.h"

#include <jansson.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/clock.h"

enum { N = 3 * 16000 };

static void must_load_file(const char *path, vo_audio *audio) {
    vo_error err = {0};
    vo_status status = vo_audio_load(path, NULL, audio, &err);
    if (status) fail_msg("%s: %s", vo_status_name(status), err.message);
}

static void test_formats(void **state) {
    static const struct {
        int format;
        const char *name;
        bool exact;
    } cases[] = {
        {SF_FORMAT_FLAC | SF_FORMAT_PCM_16, "flac", true},
        {SF_FORMAT_WAV | SF_FORMAT_PCM_16 | SF_ENDIAN_BIG, "wav pcm_16", true},
        {SF_FORMAT_AIFF | SF_FORMAT_PCM_16, "aiff pcm_16", true},
        {SF_FORMAT_CAF | SF_FORMAT_PCM_16, "caf pcm_16", true},
        {SF_FORMAT_AU | SF_FORMAT_PCM_16, "au pcm_16", true},
        {SF_FORMAT_AU | SF_FORMAT_FLOAT, "au float32", true},
        {SF_FORMAT_OGG | SF_FORMAT_VORBIS, "ogg vorbis", false},
        {SF_FORMAT_OGG | SF_FORMAT_OPUS, "ogg opus", false},
        {SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, "mp3", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        vo_buf buf = {0};
        encode(&buf, cases[i].format, 16000, 1, jfk(), N);
        for (int from_file = 0; from_file < 2; from_file++) {
            vo_audio audio;
            /* The name lies: only the bytes count. */
            if (from_file)
                must_load_file(temp_file("lies.wav", &buf), &audio);
            else
                audio = must_load(&buf);
            assert_string_equal(audio.format, cases[i].name);
            assert_string_equal(audio.warning, "");
            if (llabs(audio.n_samples - N) > (cases[i].exact ? 0 : 2))
                fail_msg("%s: %lld samples", cases[i].name, (long long)audio.n_samples);
            double c = correlation(audio.samples, audio.n_samples, jfk(), N, 2);
            if (c < (cases[i].exact ? 0.9999999 : 0.95)) fail_msg("%s: %g", cases[i].name, c);
            if (cases[i].exact) assert_memory_equal(audio.samples, jfk(), N * sizeof(float));
            vo_audio_free(&audio);
        }
        vo_buf_free(&buf);
    }
}

static void test_non_ascii_path(void **state) {
    vo_buf buf = {0};
    vo_audio audio;
    put_jfk_wav(&buf, N);
    must_load_file(temp_file("にっぽん – é \"quoted\" 100%s.wav", &buf), &audio);
    assert_int_equal(audio.n_samples, N);
    vo_audio_free(&audio);
    vo_buf_free(&buf);
}

typedef struct fifo {
    const char *path;
    const vo_buf *buf;
} fifo;

static void *feed(void *arg) {
    const fifo *f = arg;
    FILE *out = fopen(f->path, "wb");
    if (out) {
        fwrite(f->buf->data, 1, f->buf->size, out);
        fclose(out);
    }
    return NULL;
}

static void test_fifo(void **state) {
    for (int kind = 0; kind < 2; kind++) {
        vo_buf buf = {0};
        vo_audio audio;
        pthread_t thread;
        char path[512];
        if (kind == 0)
            put_jfk_wav(&buf, JFK_SAMPLES);
        else
            encode(&buf, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, jfk(), JFK_SAMPLES);
        snprintf(path, sizeof(path), "%s", temp_path(kind ? "fifo-flac" : "fifo-wav"));
        assert_int_equal(mkfifo(path, 0600), 0);
        fifo f = {path, &buf};
        assert_int_equal(pthread_create(&thread, NULL, feed, &f), 0);
        must_load_file(path, &audio);
        pthread_join(thread, NULL);
        assert_int_equal(audio.n_samples, JFK_SAMPLES);
        assert_memory_equal(audio.samples, jfk(), JFK_SAMPLES * sizeof(float));
        vo_audio_free(&audio);
        vo_buf_free(&buf);
    }
}

/* ---- Ogg --------------------------------------------------------------------------------- */

static void encode_rate(vo_buf *buf, int format, int rate, int channels) {
    /* The clip at another rate, crudely: every sample held. */
    int hold = rate / 16000;
    float *x = vo_alloc_array((size_t)(N * hold * channels), sizeof(float));
    for (int64_t i = 0; i < (int64_t)N * hold * channels; i++) x[i] = jfk()[i / channels / hold];
    encode(buf, format, rate, channels, x, (int64_t)N * hold);
    vo_free(x);
}

/* Joined files: rate, channels and even the codec change on the way. */
static void test_chained_ogg(void **state) {
    vo_buf buf = {0};
    encode_rate(&buf, SF_FORMAT_OGG | SF_FORMAT_OPUS, 16000, 1);
    encode_rate(&buf, SF_FORMAT_OGG | SF_FORMAT_OPUS, 48000, 2);
    encode_rate(&buf, SF_FORMAT_OGG | SF_FORMAT_VORBIS, 32000, 1);
    vo_audio audio = must_load(&buf);
    assert_true(llabs(audio.n_samples - 3 * N) <= 6);
    assert_string_equal(audio.warning, "");
    for (int part = 0; part < 3; part++) {
        double c = correlation(audio.samples + part * N, N - 10, jfk(), N - 10, 8);
        if (c < 0.9) fail_msg("part %d: %g", part, c);
    }
    vo_audio_free(&audio);
    /* Junk between the parts costs nothing but itself. */
    vo_buf again = {0};
    encode_rate(&again, SF_FORMAT_OGG | SF_FORMAT_OPUS, 16000, 1);
    for (int i = 0; i < 1000; i++) vo_buf_puts(&again, "Ogg junk ");
    encode_rate(&again, SF_FORMAT_OGG | SF_FORMAT_OPUS, 16000, 1);
    audio = must_load(&again);
    assert_true(llabs(audio.n_samples - 2 * N) <= 4);
    vo_audio_free(&audio);
    vo_buf_free(&again);
    vo_buf_free(&buf);
}

/* ---- MP3 --------------------------------------------------------------------------------- */

static void encode_mp3(vo_buf *buf, int64_t n) {
    encode(buf, SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, 16000, 1, jfk(), n);
}

static void assert_mp3(const vo_buf *buf, int64_t n, int64_t tolerance) {
    vo_audio audio = must_load(buf);
    assert_string_equal(audio.format, "mp3");
    if (llabs(audio.n_samples - n) > tolerance)
        fail_msg("%lld samples, %lld wanted", (long long)audio.n_samples, (long long)n);
    /* Without the encoder's index its delay stays in. */
    double c = correlation(audio.samples + 8000, 8000, jfk() + 8000, 8000, 5000);
    if (c < 0.95) fail_msg("correlation %g", c);
    vo_audio_free(&audio);
}

static void test_mp3_after_junk(void **state) {
    vo_buf mp3 = {0}, buf = {0};
    encode_mp3(&mp3, N);
    for (int i = 0; i < 100000; i++) {
        unsigned char byte = (unsigned char)(i * 7919 >> 3);
        vo_buf_append(&buf, &byte, 1);
    }
    vo_buf_append(&buf, mp3.data, mp3.size);
    assert_mp3(&buf, N, 2);
    /* Beginning with a sync word that is none. */
    memcpy(buf.data, "\xff\xfb\x90\x64", 4);
    assert_mp3(&buf, N, 2);
    vo_buf_free(&buf);
    vo_buf_free(&mp3);
}

static void test_mp3_with_tags(void **state) {
    vo_buf mp3 = {0}, buf = {0};
    encode_mp3(&mp3, N);
    /* ID3v2.3 with a PRIV frame full of false sync words, twice, and an old tag at the end. */
    for (int tag = 0; tag < 2; tag++) {
        vo_buf_append(&buf, "ID3\3\0\0\0\0\x3e\x0aPRIV\0\0\x1f\0\0\0", 20);
        for (int i = 0; i < 7936; i++) vo_buf_append(&buf, i % 2 ? "\xfb" : "\xff", 1);
    }
    vo_buf_append(&buf, mp3.data, mp3.size);
    vo_buf_append(&buf, "TAG", 3);
    for (int i = 0; i < 125; i++) vo_buf_append(&buf, " ", 1);
    assert_mp3(&buf, N, 2);
    vo_buf_free(&buf);
    vo_buf_free(&mp3);
}

/* Cut anywhere at the front: the first whole frame is found. */
static void test_mp3_without_its_beginning(void **state) {
    vo_buf mp3 = {0};
    encode_mp3(&mp3, N);
    for (size_t cut = 1; cut < 1200; cut += 233) {
        vo_buf buf = {0};
        vo_buf_append(&buf, mp3.data + cut, mp3.size - cut);
        assert_mp3(&buf, N, 4000);
        vo_buf_free(&buf);
    }
    vo_buf_free(&mp3);
}

/* Two files joined, each with an index that counts only itself. */
static void test_joined_mp3(void **state) {
    vo_buf buf = {0};
    encode_mp3(&buf, N);
    encode_mp3(&buf, N);
    vo_audio audio = must_load(&buf);
    if (audio.n_samples < 2 * N) fail_msg("%lld samples", (long long)audio.n_samples);
    assert_true(audio.n_samples < 2 * N + 4000);
    vo_audio_free(&audio);
    vo_buf_free(&buf);
}

/* Ten times the frames take ten times the time, not a hundred times. */
static void test_long_mp3(void **state) {
    enum { PARTS = 200 };
    vo_buf mp3 = {0}, buf = {0};
    double seconds[2];
    encode_mp3(&mp3, N);
    for (int round = 0; round < 2; round++) {
        const int parts = round ? PARTS : PARTS / 10;
        buf.size = 0;
        for (int i = 0; i < parts; i++) vo_buf_append(&buf, mp3.data, mp3.size);
        const double begin = vo_clock_seconds();
        vo_audio audio = must_load(&buf);
        seconds[round] = vo_clock_seconds() - begin;
        assert_true(audio.n_samples >= (int64_t)parts * N);
        assert_true(audio.n_samples < (int64_t)parts * (N + 4000));
        vo_audio_free(&audio);
    }
    if (seconds[1] > 40 * seconds[0] + 1) fail_msg("%g s, then %g s", seconds[0], seconds[1]);
    vo_buf_free(&buf);
    vo_buf_free(&mp3);
}

static void test_very_short_mp3(void **state) {
    vo_buf buf = {0};
    encode_mp3(&buf, 400);
    vo_audio audio = must_load(&buf);
    assert_true(llabs(audio.n_samples - 400) <= 2);
    vo_audio_free(&audio);
    vo_buf_free(&buf);
}

static void test_mp3_in_wav(void **state) {
    vo_buf mp3 = {0}, buf = {0};
    encode_mp3(&mp3, N);
    vo_buf_append(&buf, "RIFF\0\0\0\0WAVE", 12);
    put_fmt(&buf, 0x55, 1, 16000, 0);
    put_chunk(&buf, "data", mp3.data, mp3.size);
    assert_mp3(&buf, N, 2);
    vo_buf_free(&buf);
    vo_buf_free(&mp3);
}

/* ---- damage ------------------------------------------------------------------------------ */

static void test_damaged_tails(void **state) {
    static const struct {
        int format;
        bool warns; /* libsndfile believes AIFF's file size more than its header */
    } cases[] = {
        {SF_FORMAT_FLAC | SF_FORMAT_PCM_16, true},
        {SF_FORMAT_OGG | SF_FORMAT_OPUS, true},
        {SF_FORMAT_OGG | SF_FORMAT_VORBIS, true},
        {SF_FORMAT_WAV | SF_FORMAT_PCM_16, true},
        {SF_FORMAT_W64 | SF_FORMAT_PCM_16, true},
        {SF_FORMAT_RF64 | SF_FORMAT_PCM_16, true},
        {SF_FORMAT_AIFF | SF_FORMAT_PCM_16, false},
        {SF_FORMAT_CAF | SF_FORMAT_PCM_16, true},
        {SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        vo_buf buf = {0};
        encode(&buf, cases[i].format, 16000, 1, jfk(), JFK_SAMPLES);
        buf.size = buf.size * 2 / 3;
        vo_audio audio = must_load(&buf);
        if (audio.n_samples < JFK_SAMPLES / 2 || audio.n_samples > JFK_SAMPLES * 3 / 4)
            fail_msg("%s: %lld samples", audio.format, (long long)audio.n_samples);
        double c = correlation(audio.samples, audio.n_samples, jfk(), JFK_SAMPLES, 2);
        if (c < 0.95) fail_msg("%s: %g", audio.format, c);
        if (cases[i].warns && !audio.warning[0]) fail_msg("%s: no warning", audio.format);
        vo_audio_free(&audio);
        vo_buf_free(&buf);
    }
}

/* Bytes overwritten in the middle: something is read, or a sentence says why not. */
static void test_holes(void **state) {
    static const int formats[] = {SF_FORMAT_FLAC | SF_FORMAT_PCM_16, SF_FORMAT_OGG | SF_FORMAT_OPUS,
                                  SF_FORMAT_OGG | SF_FORMAT_VORBIS,
                                  SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III};
    for (int i = 0; i < 4; i++) {
        vo_buf buf = {0};
        encode(&buf, formats[i], 16000, 1, jfk(), JFK_SAMPLES);
        memset(buf.data + buf.size / 2, 0, 300);
        vo_audio audio = must_load(&buf);
        assert_true(audio.n_samples > JFK_SAMPLES / 3);
        for (int64_t k = 0; k < audio.n_samples; k++)
            assert_true(audio.samples[k] > -1e9f && audio.samples[k] < 1e9f);
        vo_audio_free(&audio);
        vo_buf_free(&buf);
    }
}

static void test_no_audio(void **state) {
    static const struct {
        const char *bytes;
        int size;
        const char *part;
    } cases[] = {
        {"", 0, "is empty"},
        {"%PDF-1.7 and so on", 18, "is a PDF document, not audio"},
        {"PK\3\4\24\0\0\0\10\0", 10, "is a ZIP archive"},
        {"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16, "is a PNG picture"},
        {"\xff\xd8\xff\xe0\0\x10JFIF", 10, "is a JPEG picture"},
        {"<!DOCTYPE html><title>404</title>", 33, "is text, not audio"},
        {"#EXTM3U\nhttp://example.org/a.ts\n", 32, "is a playlist"},
        {"\xff\xfeh\0i\0 \0t\0h\0e\0r\0e\0", 18, "would need ffmpeg"},
        {"\0\1\2\3\4\5\6\7\x8\x9", 10, "would need ffmpeg"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        vo_buf buf = {0};
        vo_audio audio;
        vo_error err;
        vo_audio_params params = vo_audio_default_params();
        params.ffmpeg_timeout = -1;
        vo_buf_append(&buf, cases[i].bytes, (size_t)cases[i].size);
        vo_status status = load_bytes(&buf, 0, &params, &audio, &err);
        if (status == VO_OK || !strstr(err.message, cases[i].part))
            fail_msg("case %d: %s", (int)i, err.message);
        assert_null(audio.samples);
        vo_buf_free(&buf);
    }
}

static void test_paths_that_fail(void **state) {
    vo_audio audio;
    vo_error err = {0};
    vo_buf empty = {0};
    assert_int_equal(vo_audio_load("no/such/file.wav", NULL, &audio, &err), VO_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "no/such/file.wav"));
    memset(&err, 0, sizeof(err));
    assert_int_equal(vo_audio_load("tests", NULL, &audio, &err), VO_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "is a folder"));
    memset(&err, 0, sizeof(err));
    assert_int_equal(vo_audio_load(temp_file("empty", &empty), NULL, &audio, &err), VO_ERR_FORMAT);
    assert_non_null(strstr(err.message, "is empty"));
    vo_audio_params params = vo_audio_default_params();
    params.channel = -2;
    assert_int_equal(vo_audio_load("tests/data/audio/jfk.wav", &params, &audio, NULL),
                     VO_ERR_ARGUMENT);
}

/* Half an hour of silence in a small file: refused while it is decoded. */
static void test_small_file_long_sound(void **state) {
    vo_buf buf = {0};
    vo_audio audio;
    vo_error err;
    enum { LONG = 30 * 60 * 16000 };
    float *x = vo_alloc_array(LONG, sizeof(float));
    encode(&buf, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, x, LONG);
    vo_free(x);
    vo_audio_params params = vo_audio_default_params();
    params.max_seconds = 60;
    vo_memory_reset_peak();
    const size_t before = vo_memory_get_stats().peak_bytes;
    assert_int_equal(load_bytes(&buf, 0, &params, &audio, &err), VO_ERR_LIMIT);
    const size_t grown = vo_memory_get_stats().peak_bytes - before;
    if (grown > (size_t)8 << 20) fail_msg("%zu bytes were taken", grown);
    vo_buf_free(&buf);
}

/* The recordings of the extended suite: length and format as its list has them. */
static void test_recordings(void **state) {
    const char *path = data_path("manifest.json");
    if (!path) {
        print_message("VOCIS_TEST_DATA is not set\n");
        skip();
    }
    json_error_t why;
    json_t *list = json_load_file(path, 0, &why), *entry;
    assert_non_null(list);
    size_t index, seen = 0;
    json_array_foreach(list, index, entry) {
        const char *file = json_string_value(json_object_get(entry, "file"));
        const char *sound = json_string_value(json_object_get(entry, "audio"));
        char coding[32];
        int rate, channels;
        double seconds;
        if (!file || !sound ||
            sscanf(sound, "%31s %d Hz %dch %lfs", coding, &rate, &channels, &seconds) != 4)
            continue;
        if (strcmp(coding, "aac") == 0) continue; /* test_ffmpeg.c */
        vo_audio audio;
        must_load_file(data_path(file), &audio);
        /* The list counts MP3 by packets, without the encoder's delay. */
        double tolerance = strcmp(coding, "mp3") == 0 ? 2 * 1152.0 / rate : 0.011;
        if (audio.duration < seconds - tolerance || audio.duration > seconds + tolerance ||
            audio.source_channels != channels ||
            (audio.source_rate != rate && strcmp(coding, "opus") != 0))
            fail_msg("%s: %g s, %d Hz, %d channels instead of %s", file, audio.duration,
                     audio.source_rate, audio.source_channels, sound);
        if (audio.warning[0]) print_message("%s: %s\n", file, audio.warning);
        assert_true(audio.n_samples > 0);
        vo_audio_free(&audio);
        seen++;
    }
    json_decref(list);
    assert_true(seen > 100);
}

static int cleanup(void **state) {
    temp_cleanup();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_non_ascii_path),
        cmocka_unit_test(test_fifo),
        cmocka_unit_test(test_chained_ogg),
        cmocka_unit_test(test_mp3_after_junk),
        cmocka_unit_test(test_mp3_with_tags),
        cmocka_unit_test(test_mp3_without_its_beginning),
        cmocka_unit_test(test_joined_mp3),
        cmocka_unit_test(test_long_mp3),
        cmocka_unit_test(test_very_short_mp3),
        cmocka_unit_test(test_mp3_in_wav),
        cmocka_unit_test(test_damaged_tails),
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_no_audio),
        cmocka_unit_test(test_paths_that_fail),
        cmocka_unit_test(test_small_file_long_sound),
        cmocka_unit_test(test_recordings),
    };
    return cmocka_run_group_tests(tests, NULL, cleanup);
}
