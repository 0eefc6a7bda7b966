/* SPDX-License-Identifier: MIT
 *
 * A device that is a file: every 10 ms a thread writes what the clock says is due.
 */
#include "audio/audio.h"
#include "audio/capture.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"

#include <stdatomic.h>

typedef struct playback {
    vo_device device; /* first: they are one */
    vo_audio audio;
    int64_t at; /* samples played */
    vo_ring *ring;
    vo_thread *thread;
    atomic_bool stop, ended;
} playback;

static void play(void *arg) {
    playback *p = arg;
    const double begin = vo_clock_seconds() - (double)p->at / VO_SAMPLE_RATE;
    while (!atomic_load(&p->stop) && p->at < p->audio.n_samples) {
        int64_t due = (int64_t)((vo_clock_seconds() - begin) * VO_SAMPLE_RATE);
        if (due > p->audio.n_samples) due = p->audio.n_samples;
        vo_ring_write(p->ring, p->audio.samples + p->at, due - p->at);
        p->at = due;
        vo_clock_sleep(0.01);
    }
    if (p->at >= p->audio.n_samples) atomic_store(&p->ended, true);
}

static vo_status open_file(vo_device *device, vo_ring *ring, int *rate, vo_error *err) {
    playback *p = (playback *)device;
    p->ring = ring;
    *rate = VO_SAMPLE_RATE;
    atomic_store(&p->stop, false);
    p->thread = vo_thread_create(play, p, err);
    return p->thread ? VO_OK : VO_ERR_MEMORY;
}

static bool is_running(vo_device *device) {
    return true;
}

static bool has_ended(vo_device *device) {
    return atomic_load(&((playback *)device)->ended);
}

static void close_file(vo_device *device) {
    playback *p = (playback *)device;
    atomic_store(&p->stop, true);
    vo_thread_join(p->thread);
    p->thread = NULL;
}

static void destroy(vo_device *device) {
    playback *p = (playback *)device;
    vo_audio_free(&p->audio);
    vo_free(p);
}

vo_status vo_playback_create(const char *path, vo_device **out, vo_error *err) {
    playback *p = vo_alloc(sizeof *p);
    if (!p) return vo_fail(err, VO_ERR_MEMORY, "no memory for a device");
    p->device = (vo_device){.open = open_file,
                            .is_running = is_running,
                            .has_ended = has_ended,
                            .close = close_file,
                            .destroy = destroy};
    vo_status status = vo_audio_load(path, NULL, &p->audio, err);
    if (status != VO_OK)
        destroy(&p->device);
    else
        *out = &p->device;
    return status;
}
