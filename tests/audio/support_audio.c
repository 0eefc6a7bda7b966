/* SPDX-License-Identifier: MIT
 *
 * See support_audio.h.
 */
#include "support_audio.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static int16_t pcm[JFK_SAMPLES];
static float samples[JFK_SAMPLES];

static void read_jfk(void) {
    static bool done;
    if (done) return;
    FILE *f = fopen("tests/data/audio/jfk.wav", "rb");
    assert_non_null(f);
    /* The samples are the tail of the file. */
    assert_int_equal(fseek(f, -(long)sizeof(pcm), SEEK_END), 0);
    assert_int_equal(fread(pcm, sizeof(pcm[0]), JFK_SAMPLES, f), JFK_SAMPLES);
    fclose(f);
    for (int i = 0; i < JFK_SAMPLES; i++) samples[i] = (float)pcm[i] / 32768.0f;
    done = true;
}

const int16_t *jfk_pcm(void) {
    read_jfk();
    return pcm;
}

const float *jfk(void) {
    read_jfk();
    return samples;
}

/* ---- bytes ------------------------------------------------------------------------------- */

void put16(vo_buf *buf, uint32_t v) {
    unsigned char b[2] = {(unsigned char)v, (unsigned char)(v >> 8)};
    vo_buf_append(buf, b, 2);
}

void put32(vo_buf *buf, uint32_t v) {
    put16(buf, v & 0xFFFF);
    put16(buf, v >> 16);
}

void put_chunk(vo_buf *buf, const char *name, const void *data, size_t size) {
    vo_buf_append(buf, name, 4);
    put32(buf, (uint32_t)size);
    vo_buf_append(buf, data, size);
    if (size % 2) vo_buf_append(buf, "", 1);
}

void put_fmt(vo_buf *buf, int tag, int channels, uint32_t rate, int bits) {
    uint32_t block = (uint32_t)(channels * ((bits + 7) / 8));
    vo_buf_append(buf, "fmt ", 4);
    put32(buf, 16);
    put16(buf, (uint32_t)tag);
    put16(buf, (uint32_t)channels);
    put32(buf, rate);
    put32(buf, rate * block);
    put16(buf, block & 0xFFFF);
    put16(buf, (uint32_t)bits);
}

void put_wav_head(vo_buf *buf, int tag, int channels, uint32_t rate, int bits, uint32_t data_size) {
    vo_buf_append(buf, "RIFF", 4);
    put32(buf, data_size > UINT32_MAX - 36 ? data_size : data_size + 36);
    vo_buf_append(buf, "WAVE", 4);
    put_fmt(buf, tag, channels, rate, bits);
    vo_buf_append(buf, "data", 4);
    put32(buf, data_size);
}

void put_jfk_wav(vo_buf *buf, int n) {
    put_wav_head(buf, 1, 1, 16000, 16, (uint32_t)n * 2);
    vo_buf_append(buf, jfk_pcm(), (size_t)n * 2);
}

typedef struct bytes {
    const vo_buf *buf;
    size_t position, piece;
} bytes;

static int64_t read_bytes(void *user, void *data, size_t size) {
    bytes *b = user;
    size_t left = b->buf->size - b->position;
    if (size > left) size = left;
    if (b->piece && size > b->piece) size = b->piece;
    if (size) memcpy(data, b->buf->data + b->position, size);
    b->position += size;
    return (int64_t)size;
}

vo_status load_bytes(const vo_buf *buf, size_t piece, const vo_audio_params *params,
                     vo_audio *audio, vo_error *err) {
    assert_false(buf->failed);
    bytes b = {buf, 0, piece};
    vo_source source = {read_bytes, &b, "test bytes"};
    memset(err, 0, sizeof(*err));
    return vo_audio_load_source(&source, params, audio, err);
}

vo_audio must_load(const vo_buf *buf) {
    vo_audio audio;
    vo_error err;
    vo_status status = load_bytes(buf, 0, NULL, &audio, &err);
    if (status) fail_msg("%s: %s", vo_status_name(status), err.message);
    return audio;
}

void must_refuse(const vo_buf *buf, vo_status status, const char *part) {
    vo_audio audio;
    vo_error err;
    vo_status got = load_bytes(buf, 0, NULL, &audio, &err);
    if (got != status || !strstr(err.message, part) || !strstr(err.message, "test bytes"))
        fail_msg("wanted '%s' with '%s', got '%s' with '%s'", vo_status_name(status), part,
                 vo_status_name(got), err.message);
    assert_null(audio.samples);
    assert_int_equal(audio.n_samples, 0);
}

static char folder[64];

const char *temp_path(const char *name) {
    static char path[512];
    if (!folder[0]) {
        strcpy(folder, "/tmp/vocis-audio-XXXXXX");
        assert_non_null(mkdtemp(folder));
    }
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

const char *temp_file(const char *name, const vo_buf *buf) {
    const char *path = temp_path(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    if (buf->size) assert_int_equal(fwrite(buf->data, 1, buf->size, f), buf->size);
    assert_int_equal(fclose(f), 0);
    return path;
}

void temp_cleanup(void) {
    vo_error err = {0};
    if (folder[0]) vo_remove_tree(folder, &err);
    folder[0] = 0;
}

typedef struct memory_file {
    vo_buf *buf;
    size_t base, position;
} memory_file;

static sf_count_t file_size(void *user) {
    memory_file *m = user;
    return (sf_count_t)(m->buf->size - m->base);
}

static sf_count_t file_seek(sf_count_t offset, int whence, void *user) {
    memory_file *m = user;
    if (whence == SEEK_CUR) offset += (sf_count_t)m->position;
    if (whence == SEEK_END) offset += file_size(m);
    m->position = (size_t)offset;
    return offset;
}

static sf_count_t file_read(void *data, sf_count_t size, void *user) {
    memory_file *m = user;
    sf_count_t left = file_size(m) - (sf_count_t)m->position;
    if (size > left) size = left > 0 ? left : 0;
    memcpy(data, m->buf->data + m->base + m->position, (size_t)size);
    m->position += (size_t)size;
    return size;
}

static sf_count_t file_write(const void *data, sf_count_t size, void *user) {
    memory_file *m = user;
    size_t at = m->base + m->position, end = at + (size_t)size;
    while (m->buf->size < end) vo_buf_append(m->buf, "", 1);
    memcpy(m->buf->data + at, data, (size_t)size);
    m->position += (size_t)size;
    return size;
}

static sf_count_t file_tell(void *user) {
    return (sf_count_t)((memory_file *)user)->position;
}

void encode(vo_buf *buf, int format, int rate, int channels, const float *x, int64_t frames) {
    SF_VIRTUAL_IO io = {file_size, file_seek, file_read, file_write, file_tell};
    SF_INFO info = {.samplerate = rate, .channels = channels, .format = format};
    memory_file m = {buf, buf->size, 0};
    SNDFILE *file = sf_open_virtual(&io, SFM_WRITE, &info, &m);
    if (!file) fail_msg("libsndfile cannot write format %x: %s", format, sf_strerror(NULL));
    if ((format & SF_FORMAT_SUBMASK) == SF_FORMAT_PCM_16) {
        /* Exactly: libsndfile's own conversion scales by 32767. */
        short *exact = vo_alloc((size_t)(frames * channels) * sizeof(short));
        for (int64_t i = 0; i < frames * channels; i++) exact[i] = (short)lrintf(x[i] * 32768.0f);
        assert_int_equal(sf_writef_short(file, exact, frames), frames);
        vo_free(exact);
    } else {
        assert_int_equal(sf_writef_float(file, x, frames), frames);
    }
    assert_int_equal(sf_close(file), 0);
    assert_false(buf->failed);
}

const char *data_path(const char *relative) {
    static char path[1024];
    const char *base = getenv("VOCIS_TEST_DATA");
    if (!base || !base[0]) return NULL;
    snprintf(path, sizeof(path), "%s/%s", base, relative);
    return path;
}

/* ---- comparison -------------------------------------------------------------------------- */

double correlation(const float *a, int64_t na, const float *b, int64_t nb, int max_lag) {
    double best = -1;
    for (int lag = -max_lag; lag <= max_lag; lag++) {
        double ab = 0, aa = 0, bb = 0;
        for (int64_t i = lag > 0 ? lag : 0; i < na && i - lag < nb; i++) {
            ab += (double)a[i] * b[i - lag];
            aa += (double)a[i] * a[i];
            bb += (double)b[i - lag] * b[i - lag];
        }
        double c = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
        if (c > best) best = c;
    }
    return best;
}

double rms(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return n ? sqrt(sum / (double)n) : 0;
}

double max_difference(const float *a, const float *b, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - b[i]);
        if (!(d <= most)) most = d;
    }
    return most;
}

float *read_npy(const char *path, int64_t shape[2]) {
    char *data, *p;
    size_t size, header;
    vo_error err = {0};
    if (vo_file_read(path, (size_t)64 << 20, &data, &size, &err)) fail_msg("%s", err.message);
    assert_true(size > 10 && memcmp(data, "\x93NUMPY\x01", 7) == 0);
    header = 10 + (unsigned char)data[8] + 256u * (unsigned char)data[9];
    assert_true(header <= size);
    assert_non_null(strstr(data + 10, "'<f4'"));
    assert_non_null(strstr(data + 10, "'fortran_order': False"));
    p = strstr(data + 10, "'shape': (");
    assert_non_null(p);
    p += strlen("'shape': (");
    shape[0] = strtoll(p, &p, 10);
    shape[1] = *p == ',' ? strtoll(p + 1, &p, 10) : 0;
    if (shape[1] == 0) shape[1] = 1;
    size_t bytes_wanted = (size_t)(shape[0] * shape[1]) * sizeof(float);
    assert_true(size - header >= bytes_wanted);
    float *values = vo_alloc(bytes_wanted);
    memcpy(values, data + header, bytes_wanted);
    vo_free(data);
    return values;
}
