/* SPDX-License-Identifier: MIT
 *
 * What only ffmpeg reads: AAC in MP4, WebM and others, whole, cut, from files and streams; and
 * what is said when it is not installed. The samples are made by ffmpeg itself.
 */
#include "support_audio.h"

#include "base/clock.h"
#include "base/process.h"

static char *saved_path;

static void need_ffmpeg(void) {
    if (vo_process_available("ffmpeg")) return;
    print_message("ffmpeg is not installed\n");
    skip();
}

/* The clip in another format, made once per call; appended to buf. */
static void make(vo_buf *buf, const char *const *options, const char *name) {
    const char *argv[32] = {"ffmpeg", "-v", "error", "-y", "-i", "tests/data/audio/jfk.wav"};
    int n = 6;
    char path[512];
    vo_error err = {0};
    vo_process *process;
    snprintf(path, sizeof(path), "%s", temp_path(name));
    for (int i = 0; options[i]; i++) argv[n++] = options[i];
    argv[n++] = path;
    vo_process_params params = {.argv = argv};
    if (vo_process_start(&params, &process, &err) || vo_process_finish(process, &err))
        fail_msg("%s: %s", name, err.message);
    vo_process_destroy(process);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char block[4096];
    size_t got;
    while ((got = fread(block, 1, sizeof(block), f)) > 0) vo_buf_append(buf, block, got);
    fclose(f);
    assert_true(buf->size > 1000);
}

static void make_m4a(vo_buf *buf) {
    make(buf, (const char *const[]){"-c:a", "aac", "-b:a", "48k", NULL}, "clip.m4a");
}

static void assert_clip(const vo_audio *audio, const char *format) {
    assert_string_equal(audio->format, format);
    if (llabs(audio->n_samples - JFK_SAMPLES) > 2100)
        fail_msg("%s: %lld samples", format, (long long)audio->n_samples);
    double c = correlation(audio->samples + 30000, 16000, jfk() + 30000, 16000, 2100);
    if (c < 0.9) fail_msg("%s: correlation %g", format, c);
}

static void test_formats(void **state) {
    static const struct {
        const char *const options[8];
        const char *name, *format;
    } cases[] = {
        {{"-c:a", "aac", "-b:a", "48k"}, "a.m4a", "ffmpeg mov"},
        {{"-c:a", "aac", "-b:a", "48k", "-movflags", "+faststart"}, "b.mp4", "ffmpeg mov"},
        {{"-c:a", "aac", "-movflags", "frag_keyframe+empty_moov"}, "c.mp4", "ffmpeg mov"},
        {{"-c:a", "libopus", "-b:a", "32k"}, "d.webm", "ffmpeg matroska"},
        {{"-c:a", "aac", "-b:a", "48k"}, "e.aac", "ffmpeg aac"},
        {{"-c:a", "wmav2", "-b:a", "64k"}, "f.wma", "ffmpeg asf"},
        {{"-c:a", "mp2"}, "g.ts", "ffmpeg mpegts"},
        {{"-c:a", "wavpack"}, "h.wv", "ffmpeg wv"},
        {{"-c:a", "aac", "-ac", "2", "-ar", "44100"}, "i.mov", "ffmpeg mov"},
    };
    need_ffmpeg();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        vo_buf buf = {0};
        vo_audio audio;
        vo_error err = {0};
        make(&buf, cases[i].options, cases[i].name);
        audio = must_load(&buf);
        assert_clip(&audio, cases[i].format);
        assert_string_equal(audio.warning, "");
        vo_audio_free(&audio);
        vo_status status = vo_audio_load(temp_file("-i lies %d.wav", &buf), NULL, &audio, &err);
        if (status) fail_msg("%s", err.message);
        assert_clip(&audio, cases[i].format);
        vo_audio_free(&audio);
        vo_buf_free(&buf);
    }
}

/* Our channel rules hold for what comes through ffmpeg too. */
static void test_channels(void **state) {
    vo_buf buf = {0};
    need_ffmpeg();
    make(&buf, (const char *const[]){"-af", "pan=stereo|c0=c0|c1=-1*c0", "-c:a", "alac", NULL},
         "anti.m4a");
    vo_audio audio = must_load(&buf);
    assert_int_equal(audio.source_channels, 2);
    assert_non_null(strstr(audio.warning, "cancel each other"));
    assert_clip(&audio, "ffmpeg mov");
    vo_audio_free(&audio);
    vo_buf_free(&buf);
}

static void test_cut(void **state) {
    need_ffmpeg();
    vo_buf buf = {0};
    make(&buf, (const char *const[]){"-c:a", "aac", "-b:a", "48k", "-movflags", "+faststart", NULL},
         "cut.mp4");
    buf.size = buf.size * 2 / 3;
    vo_audio audio = must_load(&buf);
    assert_true(audio.n_samples > JFK_SAMPLES / 2 && audio.n_samples < JFK_SAMPLES * 3 / 4);
    assert_true(audio.warning[0]);
    vo_audio_free(&audio);
    vo_buf_free(&buf);
    /* Without its index there is nothing to be had, and the sentence says who said so. */
    make_m4a(&buf);
    buf.size = buf.size * 2 / 3;
    must_refuse(&buf, VO_ERR_FORMAT, "an MP4, M4A or MOV file and could not be decoded");
    vo_buf_free(&buf);
    /* A recorder that writes fragments leaves a file that never ends. */
    make(&buf,
         (const char *const[]){"-c:a", "aac", "-movflags", "empty_moov", "-frag_duration",
                               "1000000", NULL},
         "fragments.mp4");
    buf.size = buf.size * 2 / 3;
    audio = must_load(&buf);
    assert_true(audio.n_samples > JFK_SAMPLES / 2 && audio.n_samples < JFK_SAMPLES * 3 / 4);
    assert_true(audio.warning[0]);
    vo_audio_free(&audio);
    vo_buf_free(&buf);
    make(&buf, (const char *const[]){"-c:a", "libopus", NULL}, "cut.webm");
    buf.size = buf.size * 2 / 3;
    audio = must_load(&buf);
    assert_true(audio.n_samples > JFK_SAMPLES / 2 && audio.n_samples < JFK_SAMPLES * 3 / 4);
    vo_audio_free(&audio);
    vo_buf_free(&buf);
}

static void test_no_sound_in_it(void **state) {
    need_ffmpeg();
    vo_buf buf = {0};
    make(&buf,
         (const char *const[]){"-f", "lavfi", "-i", "color=s=64x64:d=1", "-map", "1:v", "-c:v",
                               "mpeg4", NULL},
         "picture.mp4");
    must_refuse(&buf, VO_ERR_FORMAT, "could not be decoded");
    vo_buf_free(&buf);
}

/* A playlist that calls itself something else must not make ffmpeg open what it names. */
static void test_playlist_is_not_followed(void **state) {
    need_ffmpeg();
    vo_buf buf = {0};
    char line[600];
    vo_buf_puts(&buf, "\xef\xbb\xbf#EXTM3U\n#EXT-X-TARGETDURATION:11\n#EXTINF:11,\n");
    snprintf(line, sizeof(line), "file:%s\n#EXT-X-ENDLIST\n", "/etc/passwd");
    vo_buf_puts(&buf, line);
    must_refuse(&buf, VO_ERR_FORMAT, "is text");
    vo_buf_append(&buf, "\0\1\2", 3); /* no longer text for us */
    must_refuse(&buf, VO_ERR_FORMAT, "could not be decoded");
    vo_buf_free(&buf);
}

static void test_limits(void **state) {
    need_ffmpeg();
    vo_buf buf = {0};
    vo_audio audio;
    vo_error err;
    vo_audio_params params = vo_audio_default_params();
    make_m4a(&buf);
    params.max_seconds = 5;
    assert_int_equal(load_bytes(&buf, 0, &params, &audio, &err), VO_ERR_LIMIT);
    assert_non_null(strstr(err.message, "longer than the limit of 5 seconds"));
    params.max_seconds = 0;
    params.ffmpeg_timeout = 1e-4;
    const double start = vo_clock_seconds();
    assert_int_equal(load_bytes(&buf, 0, &params, &audio, &err), VO_ERR_LIMIT);
    assert_non_null(strstr(err.message, "an MP4, M4A or MOV file"));
    assert_true(vo_clock_seconds() - start < 5);
    params.ffmpeg_timeout = -1;
    assert_int_equal(load_bytes(&buf, 0, &params, &audio, &err), VO_ERR_UNSUPPORTED);
    vo_buf_free(&buf);
}

static int hide_ffmpeg(void **state) {
    const char *path = getenv("PATH");
    saved_path = vo_strdup(path ? path : "");
    return setenv("PATH", "/nonexistent", 1);
}

static int show_ffmpeg(void **state) {
    int result = setenv("PATH", saved_path, 1);
    vo_free(saved_path);
    return result;
}

static void test_not_installed(void **state) {
    static const struct {
        const char *head;
        int size;
        const char *part;
    } cases[] = {
        {"\0\0\0\x20"
         "ftypM4A \0\0\2\0",
         16, "is an MP4, M4A or MOV file, which is read through ffmpeg"},
        {"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\1\x42\xf7\x81\1\x42\xf2\x81", 16,
         "is a WebM or Matroska file"},
        {"#!AMR\n\x3c\x48\xf5\x1f\x96\x66\x79\xe1\xe0\x01", 16, "is an AMR file"},
        {"\xff\xf1\x50\x80\x02\x1f\xfc\xde\x02\0\x4c\x61\x76\x63\x35\x39", 16, "is an AAC file"},
        {"\1\2\3\4\5\6\7\x8\x9\xa\xb\xc\xd\xe\xf\x10", 16, "ffmpeg may know it"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        vo_buf buf = {0};
        vo_buf_append(&buf, cases[i].head, (size_t)cases[i].size);
        must_refuse(&buf, VO_ERR_UNSUPPORTED, cases[i].part);
        must_refuse(&buf, VO_ERR_UNSUPPORTED, "apt install ffmpeg");
        vo_buf_free(&buf);
    }
}

static void test_recording(void **state) {
    need_ffmpeg();
    const char *path =
        data_path("argmaxinc__WhisperKit/Tests/WhisperKitTests/Resources/jfk_441khz.m4a");
    if (!path) {
        print_message("VOCIS_TEST_DATA is not set\n");
        skip();
    }
    vo_audio audio;
    vo_error err = {0};
    if (vo_audio_load(path, NULL, &audio, &err)) fail_msg("%s", err.message);
    assert_clip(&audio, "ffmpeg mov");
    assert_string_equal(audio.warning, "");
    vo_audio_free(&audio);
}

static int cleanup(void **state) {
    temp_cleanup();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_no_sound_in_it),
        cmocka_unit_test(test_playlist_is_not_followed),
        cmocka_unit_test(test_limits),
        cmocka_unit_test_setup_teardown(test_not_installed, hide_ffmpeg, show_ffmpeg),
        cmocka_unit_test(test_recording),
    };
    return cmocka_run_group_tests(tests, NULL, cleanup);
}
