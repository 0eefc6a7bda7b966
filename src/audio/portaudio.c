/* SPDX-License-Identifier: MIT
 *
 * Microphones, through PortAudio. The callback of a stream may not wait, so it only mixes channels
 * into the ring. Devices are listed anew at every opening: PortAudio sees one that was plugged in
 * only after it was ended and begun again.
 */
#include "audio/audio.h"
#include "audio/capture.h"
#include "base/memory.h"

#include <portaudio.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MIX = 1024 };

typedef struct microphone {
    vo_device device; /* first: they are one */
    char *name;       /* or NULL */
    PaStream *stream;
    bool initialized;
    int channels;
    vo_ring *ring;
    atomic_int_least64_t overflows;
} microphone;

#ifdef __linux__
/* What they cannot open while devices are listed, ALSA and JACK write to standard error. PortAudio
 * brings them along where it uses them. */
typedef void alsa_handler(const char *file, int line, const char *function, int code,
                          const char *format, ...);
int snd_lib_error_set_handler(alsa_handler *handler) __attribute__((weak));
void jack_set_error_function(void (*handler)(const char *text)) __attribute__((weak));
void jack_set_info_function(void (*handler)(const char *text)) __attribute__((weak));

static void drop_alsa(const char *file, int line, const char *function, int code,
                      const char *format, ...) {}
static void drop_jack(const char *text) {}

static void hush(void) {
    if (snd_lib_error_set_handler) snd_lib_error_set_handler(drop_alsa);
    if (jack_set_error_function) jack_set_error_function(drop_jack);
    if (jack_set_info_function) jack_set_info_function(drop_jack);
}
#else
static void hush(void) {}
#endif

static vo_status begin(vo_error *err) {
    hush();
    const PaError code = Pa_Initialize();
    if (code == paNoError) return VO_OK;
    return vo_fail(err, VO_ERR_IO, "the sound system cannot be used: %s", Pa_GetErrorText(code));
}

/* ---- devices ------------------------------------------------------------------------------- */

static void describe(int index, const PaDeviceInfo *info, vo_input_device *out) {
    const PaHostApiInfo *api = Pa_GetHostApiInfo(info->hostApi);
    *out = (vo_input_device){.index = index,
                             .channels = info->maxInputChannels,
                             .rate = info->defaultSampleRate,
                             .is_default = index == Pa_GetDefaultInputDevice()};
    snprintf(out->name, sizeof out->name, "%s", info->name ? info->name : "");
    snprintf(out->system, sizeof out->system, "%s", api && api->name ? api->name : "");
}

vo_status vo_portaudio_list(vo_input_device **devices, int *n, vo_error *err) {
    *devices = NULL;
    *n = 0;
    vo_status status = begin(err);
    if (status != VO_OK) return status;
    const int count = Pa_GetDeviceCount();
    if (count > 0) *devices = vo_alloc_array((size_t)count, sizeof **devices);
    if (count > 0 && !*devices) status = vo_fail(err, VO_ERR_MEMORY, "no memory for devices");
    for (int i = 0; status == VO_OK && i < count; i++) {
        const PaDeviceInfo *info = Pa_GetDeviceInfo(i);
        if (info && info->maxInputChannels > 0) describe(i, info, &(*devices)[(*n)++]);
    }
    Pa_Terminate();
    return status;
}

static bool holds(const char *text, const char *part) {
    const size_t length = strlen(part);
    for (; *text; text++)
        if (strncasecmp(text, part, length) == 0) return true;
    return length == 0;
}

/* Number of the device, or -1. */
static int find(const char *name) {
    const int count = Pa_GetDeviceCount();
    if (!name) return count > 0 ? Pa_GetDefaultInputDevice() : -1;
    char *end;
    const long number = strtol(name, &end, 10);
    const bool numbered = end != name && *end == '\0';
    for (int i = 0; i < count; i++) {
        const PaDeviceInfo *info = Pa_GetDeviceInfo(i);
        if (!info || info->maxInputChannels < 1) continue;
        if (numbered ? i == number : info->name && holds(info->name, name)) return i;
    }
    return -1;
}

/* ---- one of them --------------------------------------------------------------------------- */

static int on_samples(const void *input, void *output, unsigned long frames,
                      const PaStreamCallbackTimeInfo *time, PaStreamCallbackFlags flags,
                      void *user) {
    microphone *m = user;
    const float *x = input;
    float mono[MIX];
    if (flags & paInputOverflow) atomic_fetch_add(&m->overflows, 1);
    for (unsigned long done = 0; x && done < frames;) {
        const unsigned long n = frames - done < MIX ? frames - done : MIX;
        for (unsigned long i = 0; i < n; i++) {
            float sum = 0;
            for (int c = 0; c < m->channels; c++) sum += *x++;
            mono[i] = sum / (float)m->channels;
        }
        vo_ring_write(m->ring, mono, (int64_t)n);
        done += n;
    }
    return paContinue;
}

/* 16 kHz if the device can do it, else its own rate. */
static vo_status start(microphone *m, int index, int *rate, vo_error *err) {
    const PaDeviceInfo *info = Pa_GetDeviceInfo(index);
    m->channels = info->maxInputChannels < 2 ? 1 : 2;
    PaStreamParameters p = {.device = index,
                            .channelCount = m->channels,
                            .sampleFormat = paFloat32,
                            .suggestedLatency = info->defaultLowInputLatency};
    *rate = VO_SAMPLE_RATE;
    if (Pa_IsFormatSupported(&p, NULL, VO_SAMPLE_RATE) != paFormatIsSupported)
        *rate = (int)info->defaultSampleRate;
    if (*rate < 1000 || *rate > 768000)
        return vo_fail(err, VO_ERR_UNSUPPORTED, "%s records at %d Hz", info->name, *rate);
    PaError code = Pa_OpenStream(&m->stream, &p, NULL, *rate, paFramesPerBufferUnspecified,
                                 paNoFlag, on_samples, m);
    if (code != paNoError) m->stream = NULL;
    if (code == paNoError) code = Pa_StartStream(m->stream);
    if (code == paNoError) return VO_OK;
    return vo_fail(err, VO_ERR_IO, "%s cannot record: %s", info->name, Pa_GetErrorText(code));
}

static void close_microphone(vo_device *device) {
    microphone *m = (microphone *)device;
    if (m->stream) Pa_CloseStream(m->stream);
    m->stream = NULL;
    if (m->initialized) Pa_Terminate();
    m->initialized = false;
}

static vo_status open_microphone(vo_device *device, vo_ring *ring, int *rate, vo_error *err) {
    microphone *m = (microphone *)device;
    vo_status status = begin(err);
    if (status != VO_OK) return status;
    m->initialized = true;
    m->ring = ring;
    const int index = find(m->name);
    if (index < 0)
        status =
            m->name ? vo_fail(err, VO_ERR_NOT_FOUND, "no device that records is called %s", m->name)
                    : vo_fail(err, VO_ERR_NOT_FOUND, "there is no device that records");
    if (status == VO_OK) status = start(m, index, rate, err);
    if (status != VO_OK) close_microphone(device);
    return status;
}

static bool is_running(vo_device *device) {
    return Pa_IsStreamActive(((microphone *)device)->stream) == 1;
}

static int64_t overflows(const vo_device *device) {
    return atomic_load(&((const microphone *)device)->overflows);
}

static void destroy(vo_device *device) {
    microphone *m = (microphone *)device;
    vo_free(m->name);
    vo_free(m);
}

vo_status vo_portaudio_create(const char *name, vo_device **out, vo_error *err) {
    microphone *m = vo_alloc(sizeof *m);
    char *copy = name && m ? vo_strdup(name) : NULL;
    if (!m || (name && !copy)) {
        vo_free(m);
        return vo_fail(err, VO_ERR_MEMORY, "no memory for a device");
    }
    m->name = copy;
    m->device = (vo_device){.open = open_microphone,
                            .is_running = is_running,
                            .close = close_microphone,
                            .destroy = destroy,
                            .overflows = overflows};
    *out = &m->device;
    return VO_OK;
}
