/* SPDX-License-Identifier: MIT */
#include "pipeline/events.h"

#include "base/memory.h"

static void free_node(vo_event_node *node) {
    if (!node) return;
    vo_free(node->stable);
    vo_free(node->rest);
    vo_result_destroy(node->owner);
    vo_free(node);
}

static vo_event_node *copy(const vocis_event *event, vo_error *err) {
    vo_event_node *node = vo_alloc(sizeof *node);
    bool good = node != NULL;
    if (good) node->event = *event;
    if (good && event->kind == VOCIS_EVENT_PARTIAL) {
        node->event.stable = node->stable = vo_strdup(event->stable);
        node->event.rest = node->rest = vo_strdup(event->rest);
        good = node->stable && node->rest;
    }
    if (good && event->segment) {
        node->owner = vo_result_create();
        good = node->owner && vo_result_add(node->owner, event->segment, err) == VO_OK;
        if (good) {
            node->owner->segments[0].id = event->segment->id;
            node->event.segment = &node->owner->segments[0];
        }
    }
    if (good) return node;
    free_node(node);
    vo_fail(err, VO_ERR_MEMORY, "no memory for an event");
    return NULL;
}

vo_status vo_events_add(vo_events *events, const vocis_event *event, vo_error *err) {
    vo_event_node *node = copy(event, err), *last = events->last;
    if (!node) return VO_ERR_MEMORY;
    if (last && last->event.kind == VOCIS_EVENT_PARTIAL && event->kind == VOCIS_EVENT_PARTIAL &&
        last->event.utterance == event->utterance) {
        const vo_event_node old = *last;
        *last = *node;
        *node = old;
        free_node(node);
        return VO_OK;
    }
    if (last)
        last->next = node;
    else
        events->first = node;
    events->last = node;
    events->n++;
    return VO_OK;
}

bool vo_events_take(vo_events *events, vocis_event *event) {
    vo_event_node *node = events->first;
    *event = (vocis_event){0};
    if (!node) {
        if (events->ended) event->kind = VOCIS_EVENT_END;
        return events->ended;
    }
    free_node(events->taken);
    events->taken = node;
    events->first = node->next;
    if (!events->first) events->last = NULL;
    events->n--;
    *event = node->event;
    events->ended = event->kind == VOCIS_EVENT_END;
    return true;
}

void vo_events_free(vo_events *events) {
    free_node(events->taken);
    for (vo_event_node *node = events->first; node;) {
        vo_event_node *next = node->next;
        free_node(node);
        node = next;
    }
    *events = (vo_events){0};
}
