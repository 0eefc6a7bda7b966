/* SPDX-License-Identifier: MIT
 *
 * Events on their way from a stream to its owner: a list that owns what events point to.
 */
#ifndef VO_PIPELINE_EVENTS_H
#define VO_PIPELINE_EVENTS_H

#include "pipeline/result.h"

typedef struct vo_event_node {
    vocis_event event;
    char *stable, *rest;
    vocis_result *owner; /* of the segment */
    struct vo_event_node *next;
} vo_event_node;

/* Zero-initialise. Not thread safe. */
typedef struct vo_events {
    vo_event_node *first, *last, *taken;
    int n; /* that wait */
    bool ended;
} vo_events;

/* Copies the text and the segment of *event. A partial text takes the place of one of the same
 * utterance that is the last to wait. */
vo_status vo_events_add(vo_events *events, const vocis_event *event, vo_error *err);
/* The oldest one, valid until the next call; false when none waits. After END, END again. */
bool vo_events_take(vo_events *events, vocis_event *event);
void vo_events_free(vo_events *events);

#endif
