/* SPDX-License-Identifier: MIT
 *
 * Channels to one, any rate to 16 kHz, block by block. The one idea: silent channels can be
 * made good after the fact by scaling the mean, so only the question of polarity needs a look
 * ahead, and memory stays at the size of the result.
 */
#include "audio/decode.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum {
    BLOCK = 4096,      /* frames per step */
    MAX_RATE = 768000, /* more is a damaged header */
    MIN_RATE = 1000,
    GROWTH = 4 * 1024 * 1024,        /* most samples added at a time */
    MAX_CHANNELS = 1024,             /* as libsndfile */
    AHEAD_FLOATS = 16 * 1024 * 1024, /* the look ahead, see audio.h */
    AHEAD_FIRST = 64 * 1024
};
static const double SILENT = 1e-6;  /* energy against the loudest channel: -60 dB */
static const double AGAINST = -0.5; /* correlation with the loudest channel */
static const double LOST = 0.25;    /* energy of the plain mean against the corrected one */
static const float LOUDEST = 1e9f;  /* beyond this a value is damage; its square is finite */

vo_audio_params vo_audio_default_params(void) {
    vo_audio_params params = {.channel = -1};
    return params;
}

void vo_audio_free(vo_audio *audio) {
    if (!audio) return;
    vo_free(audio->samples);
    memset(audio, 0, sizeof(*audio));
}

void vo_audio_warn(vo_audio *audio, const char *fmt, ...) {
    size_t used = strlen(audio->warning), room = sizeof(audio->warning) - used;
    if (room < 16) return;
    if (used) {
        memcpy(audio->warning + used, "; ", 3);
        used += 2;
        room -= 2;
    }
    va_list args;
    va_start(args, fmt);
    vsnprintf(audio->warning + used, room, fmt, args);
    va_end(args);
}

void vo_mixer_init(vo_mixer *mixer, const char *name, const vo_audio_params *params,
                   vo_audio *audio) {
    memset(mixer, 0, sizeof(*mixer));
    mixer->name = name;
    mixer->audio = audio;
    mixer->channel = params->channel;
    mixer->sink = params->sink;
    mixer->sink_user = params->sink_user;
    mixer->max_seconds = params->max_seconds > 0 ? params->max_seconds
                         : params->sink          ? 1e9
                                                 : 48 * 3600.0;
}

static void end_part(vo_mixer *m) {
    soxr_delete(m->soxr);
    m->soxr = NULL;
    vo_free(m->energy);
    vo_free(m->weight);
    vo_free(m->ahead);
    vo_free(m->block);
    vo_free(m->mono);
    m->energy = NULL;
    m->weight = m->ahead = m->block = m->mono = NULL;
    m->ahead_frames = m->ahead_capacity = 0;
    m->rate = 0;
}

static vo_status no_memory(const vo_mixer *m, vo_error *err) {
    return vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory for the samples", m->name);
}

/* A finished block of the result. The result grows by blocks, not by copies of itself, and is
 * joined at the end while the blocks are freed one by one. */
struct vo_samples {
    struct vo_samples *before;
    float *data;
    int64_t n;
};

/* Room for `more` samples after n_out. */
static vo_status reserve(vo_mixer *m, int64_t more, vo_error *err) {
    if (more <= m->capacity - m->n_out) return VO_OK;
    int64_t capacity = m->n_full + m->n_out;
    if (capacity < GROWTH / 64) capacity = GROWTH / 64;
    if (capacity > GROWTH) capacity = GROWTH;
    if (capacity < more) capacity = more;
    size_t bytes;
    if (!vo_mul_size((size_t)capacity, sizeof(float), &bytes)) return no_memory(m, err);
    float *out = vo_alloc_uninitialized(bytes);
    struct vo_samples *full = m->n_out ? vo_alloc(sizeof(*full)) : NULL;
    if (!out || (m->n_out && !full)) {
        vo_free(out);
        vo_free(full);
        return no_memory(m, err);
    }
    if (full) {
        *full = (struct vo_samples){m->full, m->out, m->n_out};
        m->full = full;
        m->n_full += m->n_out;
    } else {
        vo_free(m->out);
    }
    m->out = out;
    m->n_out = 0;
    m->capacity = capacity;
    return VO_OK;
}

/* Forgets the newest finished block, with its samples or without. */
static void drop_full(vo_mixer *m) {
    struct vo_samples *full = m->full;
    m->full = full->before;
    vo_free(full->data);
    vo_free(full);
}

void vo_mixer_free(vo_mixer *m) {
    if (!m) return;
    end_part(m);
    vo_free(m->out);
    m->out = NULL;
    while (m->full) drop_full(m);
}

vo_status vo_mixer_begin(vo_mixer *m, int64_t rate, int64_t channels, int64_t frames, int64_t bytes,
                         vo_error *err) {
    if (channels < 1 || channels > MAX_CHANNELS)
        return vo_fail(err, VO_ERR_FORMAT, "%s: the header promises %lld channels", m->name,
                       (long long)channels);
    if (rate < MIN_RATE || rate > MAX_RATE)
        return vo_fail(err, VO_ERR_FORMAT, "%s: the header promises a rate of %lld Hz", m->name,
                       (long long)rate);
    if (m->channel >= channels)
        return vo_fail(err, VO_ERR_ARGUMENT, "%s: channel %d was asked for and there are %lld",
                       m->name, m->channel, (long long)channels);
    end_part(m);
    m->energy = vo_alloc_array((size_t)channels, sizeof(double));
    m->weight = vo_alloc_array((size_t)channels, sizeof(float));
    m->block = vo_alloc_array((size_t)channels * BLOCK, sizeof(float));
    m->mono = vo_alloc_array(BLOCK, sizeof(float));
    if (!m->energy || !m->weight || !m->block || !m->mono) return no_memory(m, err);
    if (rate != VO_SAMPLE_RATE) {
        soxr_error_t why = NULL;
        soxr_io_spec_t io = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
        soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
        soxr_runtime_spec_t runtime = soxr_runtime_spec(1);
        m->soxr = soxr_create((double)rate, VO_SAMPLE_RATE, 1, &why, &io, &quality, &runtime);
        if (!m->soxr || why)
            return vo_fail(err, VO_ERR_MEMORY, "%s: resampling from %lld Hz failed (%s)", m->name,
                           (long long)rate, why ? why : "no memory");
    }
    /* A header's word is good for a reservation only as far as its bytes could bear it out. */
    double hint = (double)frames * VO_SAMPLE_RATE / (double)rate;
    double most = 16.0 * (double)bytes;
    if (most > m->max_seconds * VO_SAMPLE_RATE) most = m->max_seconds * VO_SAMPLE_RATE;
    if (!m->sink && frames > 0 && hint < most) {
        vo_status status = reserve(m, (int64_t)hint + BLOCK, err);
        if (status) return status;
    }
    m->rate = (int)rate;
    m->channels = (int)channels;
    m->part_seconds = m->seconds;
    m->part_frames = 0;
    m->part_start = m->n_full + m->n_out;
    m->decided = channels == 1 || m->channel >= 0;
    if (m->parts++ == 0) {
        m->audio->source_rate = m->rate;
        m->audio->source_channels = m->channels;
    }
    return VO_OK;
}

/* With a sink, what was made leaves at once. */
static vo_status deliver(vo_mixer *m, vo_error *err) {
    const int64_t n = m->n_out;
    if (!m->sink || n == 0) return VO_OK;
    m->n_out = 0;
    m->n_sunk += n;
    return m->sink(m->sink_user, m->out, n) ? VO_OK : vo_fail(err, VO_ERR_ABORTED, "stopped");
}

/* mono[n] (NULL: the end of the part) through the resampler into out. */
static vo_status emit(vo_mixer *m, const float *mono, int64_t n, vo_error *err) {
    if (!m->soxr) {
        vo_status status = reserve(m, n, err);
        if (status) return status;
        if (n) memcpy(m->out + m->n_out, mono, (size_t)n * sizeof(float));
        m->n_out += n;
        return deliver(m, err);
    }
    for (;;) {
        int64_t room = n * VO_SAMPLE_RATE / m->rate + BLOCK;
        vo_status status = reserve(m, room, err);
        if (status) return status;
        size_t used = 0, made = 0;
        soxr_error_t why = soxr_process(m->soxr, mono, (size_t)n, mono ? &used : NULL,
                                        m->out + m->n_out, (size_t)room, &made);
        if (why) return vo_fail(err, VO_ERR_INTERNAL, "%s: resampling failed (%s)", m->name, why);
        m->n_out += (int64_t)made;
        status = deliver(m, err);
        if (status) return status;
        if (mono) {
            mono += used;
            n -= (int64_t)used;
            if (n == 0) return VO_OK;
        } else if (made < (size_t)room) {
            return VO_OK;
        }
    }
}

/* out[n] = sum over channels of weight * x[n][channels] */
static void mix(const float *x, int64_t n, int channels, const float *weight, float *out) {
    if (channels == 2) {
        const float a = weight[0], b = weight[1];
        for (int64_t i = 0; i < n; i++) out[i] = a * x[2 * i] + b * x[2 * i + 1];
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int c = 0; c < channels; c++) sum += weight[c] * x[i * channels + c];
        out[i] = sum;
    }
}

static double energy_of(const vo_mixer *m, const float *weight, float *mono) {
    double sum = 0;
    for (int64_t done = 0; done < m->ahead_frames; done += BLOCK) {
        int64_t n = m->ahead_frames - done < BLOCK ? m->ahead_frames - done : BLOCK;
        mix(m->ahead + done * m->channels, n, m->channels, weight, mono);
        float part = 0;
        for (int64_t i = 0; i < n; i++) part += mono[i] * mono[i];
        sum += part;
    }
    return sum;
}

/* For a sink, whose samples cannot be made good later. */
static void leave_out_silence(vo_mixer *m, double loudest) {
    int heard = 0;
    for (int c = 0; c < m->channels; c++) heard += m->energy[c] > SILENT * loudest;
    if (heard == 0) return;
    for (int c = 0; c < m->channels; c++)
        m->weight[c] = m->energy[c] > SILENT * loudest ? 1.0f / (float)heard : 0.0f;
}

/* Chooses the sign of each channel from the look ahead. */
static void decide(vo_mixer *m) {
    const int channels = m->channels;
    m->decided = true;
    int loud = 0, against = 0, last = 0;
    for (int c = 0; c < channels; c++) {
        m->weight[c] = 1.0f / (float)channels;
        if (m->energy[c] > m->energy[loud]) loud = c;
    }
    const double loudest = m->energy[loud];
    if (m->sink) leave_out_silence(m, loudest);
    const double before = energy_of(m, m->weight, m->mono);
    for (int c = 0; c < channels; c++) {
        if (c == loud || m->energy[c] <= SILENT * loudest) continue;
        double sum = 0;
        const float *x = m->ahead;
        for (int64_t i = 0; i < m->ahead_frames; i++, x += channels) sum += (double)x[c] * x[loud];
        if (sum < AGAINST * sqrt(m->energy[c] * loudest)) {
            m->weight[c] = -m->weight[c];
            against++;
            last = c;
        }
    }
    if (!against) return;
    if (before < LOST * energy_of(m, m->weight, m->mono)) {
        if (against == 1)
            vo_audio_warn(m->audio, "channels %d and %d cancel each other, channel %d was inverted",
                          loud + 1, last + 1, last + 1);
        else
            vo_audio_warn(m->audio, "%d channels run against channel %d and were inverted", against,
                          loud + 1);
        return;
    }
    for (int c = 0; c < channels; c++) m->weight[c] = fabsf(m->weight[c]);
}

static vo_status mix_and_emit(vo_mixer *m, const float *x, int64_t n, vo_error *err) {
    for (int64_t done = 0; done < n; done += BLOCK) {
        int64_t part = n - done < BLOCK ? n - done : BLOCK;
        mix(x + done * m->channels, part, m->channels, m->weight, m->mono);
        vo_status status = emit(m, m->mono, part, err);
        if (status) return status;
    }
    return VO_OK;
}

static vo_status decide_and_flush(vo_mixer *m, vo_error *err) {
    decide(m);
    vo_status status = mix_and_emit(m, m->ahead, m->ahead_frames, err);
    vo_free(m->ahead);
    m->ahead = NULL;
    m->ahead_frames = m->ahead_capacity = 0;
    return status;
}

/* x[n][channels] waits for the decision. */
static vo_status look_ahead(vo_mixer *m, const float *x, int64_t n, vo_error *err) {
    if (m->ahead_frames + n > m->ahead_capacity) {
        int64_t grown = m->ahead_capacity ? 2 * m->ahead_capacity : AHEAD_FIRST / m->channels;
        if (grown < m->ahead_frames + n) grown = m->ahead_frames + n;
        float *ahead = vo_realloc(m->ahead, (size_t)(grown * m->channels) * sizeof(float));
        if (!ahead) return no_memory(m, err);
        m->ahead = ahead;
        m->ahead_capacity = grown;
    }
    memcpy(m->ahead + m->ahead_frames * m->channels, x, (size_t)(n * m->channels) * sizeof(float));
    m->ahead_frames += n;
    if (m->ahead_frames * m->channels >= AHEAD_FLOATS || (m->sink && m->ahead_frames >= m->rate))
        return decide_and_flush(m, err);
    return VO_OK;
}

/* Copies n values; what is no number, or absurd, becomes 0. Returns how many did. */
static int64_t copy_sane(float *out, const float *in, int64_t n) {
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        bool good = fabsf(in[i]) <= LOUDEST;
        out[i] = good ? in[i] : 0.0f;
        bad += !good;
    }
    return bad;
}

static void add_energy(vo_mixer *m, const float *x, int64_t n) {
    const int channels = m->channels;
    if (channels == 2) {
        /* Eight running sums keep the vector units busy where one would wait for itself. */
        float sums[8] = {0};
        int64_t i = 0;
        for (; i + 4 <= n; i += 4)
            for (int k = 0; k < 8; k++) sums[k] += x[2 * i + k] * x[2 * i + k];
        for (; i < n; i++)
            for (int k = 0; k < 2; k++) sums[k] += x[2 * i + k] * x[2 * i + k];
        for (int k = 0; k < 8; k++) m->energy[k % 2] += sums[k];
        return;
    }
    for (int c = 0; c < channels; c++) {
        float sum = 0;
        for (int64_t i = 0; i < n; i++) sum += x[i * channels + c] * x[i * channels + c];
        m->energy[c] += sum;
    }
}

vo_status vo_mixer_write(vo_mixer *m, const float *samples, int64_t frames, vo_error *err) {
    const int channels = m->channels;
    for (int64_t done = 0; done < frames; done += BLOCK) {
        int64_t n = frames - done < BLOCK ? frames - done : BLOCK;
        const float *in = samples + done * channels;
        vo_status status;
        m->part_frames += n;
        m->seconds = m->part_seconds + (double)m->part_frames / m->rate;
        if (m->seconds > m->max_seconds)
            return vo_fail(err, VO_ERR_LIMIT, "%s: longer than the limit of %.0f seconds", m->name,
                           m->max_seconds);
        if (m->channel >= 0 && channels > 1) {
            for (int64_t i = 0; i < n; i++) m->block[i] = in[i * channels + m->channel];
            m->bad_samples += copy_sane(m->block, m->block, n);
            status = emit(m, m->block, n, err);
        } else {
            m->bad_samples += copy_sane(m->block, in, n * channels);
            if (channels > 1) add_energy(m, m->block, n);
            if (channels == 1)
                status = emit(m, m->block, n, err);
            else if (m->decided)
                status = mix_and_emit(m, m->block, n, err);
            else
                status = look_ahead(m, m->block, n, err);
        }
        if (status) return status;
    }
    return VO_OK;
}

static void scale_from(float *x, int64_t n, int64_t first, float scale) {
    for (int64_t i = first > 0 ? first : 0; i < n; i++) x[i] *= scale;
}

/* The mean over all channels becomes the mean over those that are not silent. */
static void make_good_silence(vo_mixer *m) {
    double loudest = 0;
    int silent = 0, one = 0;
    for (int c = 0; c < m->channels; c++)
        if (m->energy[c] > loudest) loudest = m->energy[c];
    if (loudest <= 0) return;
    for (int c = 0; c < m->channels; c++) {
        if (m->energy[c] > SILENT * loudest) continue;
        silent++;
        one = c;
    }
    if (!silent) return;
    const float scale = (float)m->channels / (float)(m->channels - silent);
    int64_t first = m->n_full; /* index of the block's first sample in the result */
    scale_from(m->out, m->n_out, m->part_start - first, scale);
    for (struct vo_samples *b = m->full; b && first > m->part_start; b = b->before) {
        first -= b->n;
        scale_from(b->data, b->n, m->part_start - first, scale);
    }
    if (silent == 1)
        vo_audio_warn(m->audio, "channel %d is silent and was left out", one + 1);
    else
        vo_audio_warn(m->audio, "%d of %d channels are silent and were left out", silent,
                      m->channels);
}

vo_status vo_mixer_end(vo_mixer *m, vo_error *err) {
    vo_status status = VO_OK;
    if (!m->decided) status = decide_and_flush(m, err);
    if (!status && m->soxr) status = emit(m, NULL, 0, err);
    if (!status && m->channels > 1 && m->channel < 0 && !m->sink) make_good_silence(m);
    end_part(m);
    return status;
}

/* All blocks as one, in m->out. */
static vo_status join(vo_mixer *m, vo_error *err) {
    if (!m->full) return VO_OK;
    int64_t end = m->n_full + m->n_out;
    float *all = vo_alloc_uninitialized((size_t)end * sizeof(float));
    if (!all) return no_memory(m, err);
    memcpy(all + m->n_full, m->out, (size_t)m->n_out * sizeof(float));
    vo_free(m->out);
    m->out = all;
    for (m->n_out = m->capacity = end, end = m->n_full; m->full; drop_full(m)) {
        end -= m->full->n;
        memcpy(all + end, m->full->data, (size_t)m->full->n * sizeof(float));
    }
    m->n_full = 0;
    return VO_OK;
}

vo_status vo_mixer_finish(vo_mixer *m, vo_error *err) {
    vo_audio *audio = m->audio;
    vo_status status = join(m, err);
    if (status) return status;
    if (m->bad_samples)
        vo_audio_warn(audio, "%lld samples were no numbers and became silence",
                      (long long)m->bad_samples);
    if (m->n_out + m->n_sunk == 0 && !audio->warning[0])
        vo_audio_warn(audio, "the file holds no samples");
    audio->duration = m->seconds;
    audio->n_samples = m->n_sunk;
    if (m->sink) return VO_OK;
    /* Nobody has touched what lies beyond n_out: giving much of it back by a copy would cost
     * more memory than keeping it. */
    if (m->capacity > m->n_out && m->capacity <= 2 * GROWTH) {
        float *fit = vo_realloc(m->out, (size_t)m->n_out * sizeof(float));
        if (fit) m->out = fit;
    }
    if (!m->out) m->out = vo_alloc(0);
    if (!m->out) return no_memory(m, err);
    audio->samples = m->out;
    audio->n_samples = m->n_out;
    m->out = NULL;
    m->n_out = m->capacity = 0;
    return VO_OK;
}

vo_status vo_audio_convert(const float *samples, int64_t frames, int channels, int rate,
                           int channel, float **out, int64_t *n_out, vo_error *err) {
    vo_audio audio = {0};
    vo_audio_params params = vo_audio_default_params();
    vo_mixer mixer;
    params.channel = channel;
    params.max_seconds = INFINITY;
    *out = NULL;
    *n_out = 0;
    if (frames < 0 || channel < -1)
        return vo_fail(err, VO_ERR_ARGUMENT, "negative number of frames or channel");
    vo_mixer_init(&mixer, "samples", &params, &audio);
    vo_status status = vo_mixer_begin(&mixer, rate, channels, frames, frames, err);
    if (!status) status = vo_mixer_write(&mixer, samples, frames, err);
    if (!status) status = vo_mixer_end(&mixer, err);
    if (!status) status = vo_mixer_finish(&mixer, err);
    *out = audio.samples;
    *n_out = audio.n_samples;
    vo_mixer_free(&mixer);
    return status;
}
