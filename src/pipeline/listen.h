/* SPDX-License-Identifier: MIT
 *
 * Listening to speech without end: from probabilities of speech to utterances, and what to decode
 * next. Knows neither audio nor model; positions are samples from the beginning of the stream.
 *
 * An utterance begins with speech and ends at a pause of min_silence. One that gets longer than a
 * window is cut in its longest pause of the later half (else of the first half, else where it
 * is), and the next one goes on from there.
 */
#ifndef VO_PIPELINE_LISTEN_H
#define VO_PIPELINE_LISTEN_H

#include "base/status.h"

enum { VO_LISTEN_WINDOW = 512 }; /* samples that each probability is for */

typedef struct vo_listen_rules {
    double threshold;     /* speech begins at this probability */
    double neg_threshold; /* and pauses below this one */
    int64_t min_speech;   /* less is noise */
    int64_t min_silence;  /* a pause that ends an utterance */
    int64_t pad;          /* of the pause belongs to the utterance; at most min_silence */
    int64_t max_length;   /* of an utterance with its pads, at least 2 s */
    int64_t step;         /* speech between partial decodes; 0: no partial ones */
    bool ahead;           /* decode what may be an utterance before its pause is over */
} vo_listen_rules;

typedef struct vo_utterance {
    int id;             /* from 1 */
    int64_t start, end; /* what is decoded */
    int64_t quiet;      /* of it, without speech at the end */
} vo_utterance;

typedef enum vo_listen_state {
    VO_LISTEN_QUIET,
    VO_LISTEN_MAYBE,  /* a sound that may be too short */
    VO_LISTEN_SPEECH, /* somebody speaks */
    VO_LISTEN_PAUSE   /* and is silent for a moment */
} vo_listen_state;

typedef enum vo_job_kind {
    VO_JOB_NONE,
    VO_JOB_PARTIAL, /* the utterance so far */
    VO_JOB_AHEAD,   /* as it will be if the pause goes on */
    VO_JOB_FINAL
} vo_job_kind;

typedef struct vo_job {
    vo_job_kind kind;
    vo_utterance utterance;
} vo_job;

typedef struct vo_pause {
    int64_t begin, end;
} vo_pause;

enum { VO_LISTEN_PAUSES = 512 };

/* One stream. Zero-initialise, set the rules; belongs to one thread at a time. */
typedef struct vo_listen {
    vo_listen_rules rules;
    vo_listen_state state;
    int64_t heard; /* samples judged so far */
    int64_t floor; /* where the next utterance may begin at the earliest */
    int id;        /* of the utterance that goes on, or of the last one */
    bool announced;
    int64_t begin;  /* of its speech */
    int64_t start;  /* of what is decoded of it */
    int64_t silent; /* PAUSE and MAYBE: where the pause began; -1: none goes on */
    vo_pause pauses[VO_LISTEN_PAUSES]; /* inside it, where it can be cut */
    int n_pauses;
    int64_t decoded;      /* up to where it was decoded last */
    int64_t went_ahead;   /* for which pause */
    vo_utterance *closed; /* wait to be decoded, oldest first */
    int n_closed, capacity;
} vo_listen;

void vo_listen_free(vo_listen *listen);

/* The next window. *began: the id of an utterance that is one now, else 0. */
vo_status vo_listen_hear(vo_listen *listen, double probability, int *began, vo_error *err);
/* No more will come: closes the utterance that goes on, which ends at `end`. */
vo_status vo_listen_end(vo_listen *listen, int64_t end, vo_error *err);
/* The audio before `to` is gone: forgets utterances that need it, and goes on there. A position at
 * or before vo_listen_needs changes nothing. */
void vo_listen_skip(vo_listen *listen, int64_t to);

/* What to decode now: finals first, oldest first. The same job comes again until it is done. */
vo_job vo_listen_next(const vo_listen *listen);
/* A job is done, or given up because something else is more urgent. */
void vo_listen_done(vo_listen *listen, const vo_job *job);
/* A job that runs is no longer worth its time. */
bool vo_listen_is_stale(const vo_listen *listen, const vo_job *job);
/* Samples before this one are not needed any more. */
int64_t vo_listen_needs(const vo_listen *listen);

#endif
