/* SPDX-License-Identifier: MIT
 *
 * Recording: mono samples at 16 kHz from a device, in real time and for ever.
 *
 * A device that is lost (unplugged, or silent for two seconds where it should deliver) is opened
 * again, first at once, then after 0.5 s, 1 s, 2 s, at most every 8 s; silence takes its place
 * meanwhile, as long as it was away. The device's clock is the clock: nothing is played, so there
 * is no second clock to keep up with, and drift makes no queue grow.
 */
#ifndef VO_AUDIO_CAPTURE_H
#define VO_AUDIO_CAPTURE_H

#include "audio/ring.h"

/* What records: it writes mono samples into a ring from a thread of its own. All calls come from
 * the thread that reads; after close, open may be called again. */
typedef struct vo_device {
    /* Finds the device and starts it. *rate: of what it will write, 1 to 768 kHz. */
    vo_status (*open)(struct vo_device *device, vo_ring *ring, int *rate, vo_error *err);
    bool (*is_running)(struct vo_device *device); /* false: it is lost */
    bool (*has_ended)(struct vo_device *device);  /* true: there will be no more; NULL: never */
    void (*close)(struct vo_device *device);      /* nothing is written after it */
    void (*destroy)(struct vo_device *device);    /* closed before */
    int64_t (*overflows)(const struct vo_device *device); /* so far, in the device; NULL: none */
} vo_device;

/* portaudio.c: by number (of vo_portaudio_list), or the first input whose name holds `name` in any
 * case; NULL: the system's default. The device is looked for when it is opened. */
vo_status vo_portaudio_create(const char *name, vo_device **device, vo_error *err);
typedef struct vo_input_device {
    int index;
    char name[128], system[32]; /* UTF-8; the sound system, as "ALSA" */
    int channels;
    double rate;
    bool is_default;
} vo_input_device;
/* Devices that record; *devices: vo_free. None is no error. */
vo_status vo_portaudio_list(vo_input_device **devices, int *n, vo_error *err);
/* playback.c: a file, played in real time as if somebody spoke it: for tests, and to show. */
vo_status vo_playback_create(const char *path, vo_device **device, vo_error *err);

typedef struct vo_capture vo_capture;

typedef struct vo_capture_stats {
    int64_t lost_samples; /* that nobody read in time: reading is late by more than 10 s */
    int64_t overflows;    /* of the device */
    int losses;           /* how often it was lost */
    bool connected;
} vo_capture_stats;

/* Opens and starts. Takes the device over, also on failure. */
vo_status vo_capture_create(vo_device *device, vo_capture **capture, vo_error *err);
void vo_capture_destroy(vo_capture *capture); /* NULL allowed */
/* At most `size` samples, as soon as there are some. 0: none came within `seconds`; -1: the device
 * has ended, or memory is short. One thread at a time. */
int64_t vo_capture_read(vo_capture *capture, float *samples, int64_t size, double seconds);
vo_capture_stats vo_capture_get_stats(const vo_capture *capture);

#endif
