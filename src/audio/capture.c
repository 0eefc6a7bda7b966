/* SPDX-License-Identifier: MIT
 *
 * Two states, OPEN and LOST, and a resampler in between. While the device is lost, the clock of
 * the machine says how much silence is due.
 */
#include "audio/capture.h"

#include "audio/audio.h"
#include "base/clock.h"
#include "base/memory.h"

#include <soxr.h>
#include <string.h>

enum { BLOCK = 2048 };
static const double BUFFERED = 10; /* seconds */
static const double SILENT = 2;    /* a device that delivers nothing for so long is lost */
static const double FIRST_WAIT = 0.5, LONGEST_WAIT = 8, POLL = 0.005;

struct vo_capture {
    vo_device *device;
    vo_ring *ring;
    int rate;
    soxr_t soxr; /* NULL at 16 kHz */
    bool open;
    double heard; /* when something last came, or, while lost, up to when silence was given */
    double next_try, wait;
    int losses;
    int64_t dropped; /* lost in rings of devices that are closed */
    float block[BLOCK];
};

static void close_device(vo_capture *c) {
    if (c->open) c->device->close(c->device);
    c->open = false;
    if (c->ring) c->dropped += vo_ring_lost(c->ring);
    vo_ring_destroy(c->ring);
    c->ring = NULL;
    soxr_delete(c->soxr);
    c->soxr = NULL;
}

/* The ring is made before the rate is known: it holds 10 s at 48 kHz. */
static vo_status open_device(vo_capture *c, vo_error *err) {
    vo_status status = VO_ERR_MEMORY;
    c->ring = vo_ring_create((int64_t)(BUFFERED * 48000), err);
    if (!c->ring) return status;
    status = c->device->open(c->device, c->ring, &c->rate, err);
    c->open = status == VO_OK;
    if (status == VO_OK && c->rate != VO_SAMPLE_RATE) {
        soxr_error_t why = NULL;
        const soxr_io_spec_t io = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
        const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
        const soxr_runtime_spec_t runtime = soxr_runtime_spec(1);
        c->soxr = soxr_create((double)c->rate, VO_SAMPLE_RATE, 1, &why, &io, &quality, &runtime);
        if (!c->soxr || why)
            status = vo_fail(err, VO_ERR_MEMORY, "resampling from %d Hz failed (%s)", c->rate,
                             why ? why : "no memory");
    }
    if (status != VO_OK) close_device(c);
    c->heard = vo_clock_seconds();
    return status;
}

vo_status vo_capture_create(vo_device *device, vo_capture **out, vo_error *err) {
    vo_capture *c = vo_alloc(sizeof *c);
    if (!c) {
        device->destroy(device);
        return vo_fail(err, VO_ERR_MEMORY, "no memory for recording");
    }
    c->device = device;
    vo_status status = open_device(c, err);
    if (status != VO_OK)
        vo_capture_destroy(c);
    else
        *out = c;
    return status;
}

void vo_capture_destroy(vo_capture *c) {
    if (!c) return;
    close_device(c);
    c->device->destroy(c->device);
    vo_free(c);
}

/* ---- LOST ---------------------------------------------------------------------------------- */

static void lose(vo_capture *c) {
    close_device(c);
    c->losses++;
    c->wait = FIRST_WAIT;
    c->next_try = 0; /* at once: some are back with another number */
}

static void try_again(vo_capture *c) {
    vo_error ignored = {0};
    const double heard = c->heard;
    if (vo_clock_seconds() < c->next_try) return;
    if (open_device(c, &ignored) == VO_OK) return;
    c->heard = heard;
    c->next_try = vo_clock_seconds() + c->wait;
    c->wait = c->wait * 2 < LONGEST_WAIT ? c->wait * 2 : LONGEST_WAIT;
}

static int64_t give_silence(vo_capture *c, float *samples, int64_t size) {
    const double due = (vo_clock_seconds() - c->heard) * VO_SAMPLE_RATE;
    const int64_t n = due < (double)size ? (int64_t)due : size;
    memset(samples, 0, (size_t)n * sizeof *samples);
    c->heard += (double)n / VO_SAMPLE_RATE;
    return n;
}

/* ---- OPEN ---------------------------------------------------------------------------------- */

/* What is in the ring, through the resampler; -1 when that fails. */
static int64_t take(vo_capture *c, float *samples, int64_t size) {
    if (!c->soxr) return vo_ring_read(c->ring, samples, size);
    /* No more than makes `size` samples: the resampler would hold the rest back. */
    int64_t want = (int64_t)((double)size * c->rate / VO_SAMPLE_RATE);
    if (want < 1) want = 1;
    if (want > BLOCK) want = BLOCK;
    size_t made = 0;
    while (made == 0) { /* it keeps the first ones to itself */
        const int64_t got = vo_ring_read(c->ring, c->block, want);
        if (got == 0) break;
        if (soxr_process(c->soxr, c->block, (size_t)got, NULL, samples, (size_t)size, &made))
            return -1;
    }
    return (int64_t)made;
}

int64_t vo_capture_read(vo_capture *c, float *samples, int64_t size, double seconds) {
    const double end = vo_clock_seconds() + seconds;
    if (size <= 0) return 0;
    for (;;) {
        int64_t n = 0;
        if (!c->open) {
            n = give_silence(c, samples, size);
            if (n == 0) try_again(c);
        } else {
            /* In this order: what was written before the end is not missed. */
            const bool ended = c->device->has_ended && c->device->has_ended(c->device);
            n = take(c, samples, size);
            const double time = vo_clock_seconds();
            if (n > 0) c->heard = time;
            if (n == 0 && ended) return -1;
            if (n == 0 && (!c->device->is_running(c->device) || time - c->heard > SILENT)) lose(c);
        }
        if (n != 0) return n;
        const double left = end - vo_clock_seconds();
        if (left <= 0) return 0;
        vo_clock_sleep(left < POLL ? left : POLL);
    }
}

vo_capture_stats vo_capture_get_stats(const vo_capture *c) {
    const int64_t lost = c->dropped + (c->ring ? vo_ring_lost(c->ring) : 0);
    const double rate = c->rate ? c->rate : VO_SAMPLE_RATE;
    return (vo_capture_stats){.lost_samples = (int64_t)((double)lost * VO_SAMPLE_RATE / rate),
                              .overflows =
                                  c->device->overflows ? c->device->overflows(c->device) : 0,
                              .losses = c->losses,
                              .connected = c->open};
}
