/* SPDX-License-Identifier: MIT
 *
 * A result as JSON: everything it knows, under the names that openai-whisper uses where it has
 * the same thing.
 */
#include "base/memory.h"
#include "pipeline/coverage.h"
#include "pipeline/json.h"
#include "pipeline/write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The shortest decimal that gives the same float back, so that 0.2f is not shown as
 * 0.200000003; null for what JSON cannot say. */
static json_t *json_float(float value) {
    char text[32];
    if (!isfinite(value)) return json_null();
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    return json_real(strtod(text, NULL));
}

static json_t *json_double(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_words(const vocis_segment *s, bool *failed) {
    json_t *words = json_array();
    for (int i = 0; i < s->n_words; i++) {
        const vocis_word *w = &s->words[i];
        json_t *o = json_object();
        vo_json_put(o, "word", vo_json_text(w->text), failed);
        vo_json_put(o, "start", json_double(w->start), failed);
        vo_json_put(o, "end", json_double(w->end), failed);
        vo_json_put(o, "probability", json_float(w->probability), failed);
        if (w->speaker >= 0) vo_json_put(o, "speaker", json_integer(w->speaker), failed);
        if (json_array_append_new(words, o) != 0) *failed = true;
    }
    return words;
}

static json_t *json_segment(const vocis_segment *s, bool tokens, bool *failed) {
    json_t *o = json_object();
    vo_json_put(o, "id", json_integer(s->id), failed);
    vo_json_put(o, "seek", json_integer(s->seek), failed);
    vo_json_put(o, "start", json_double(s->start), failed);
    vo_json_put(o, "end", json_double(s->end), failed);
    vo_json_put(o, "text", vo_json_text(s->text), failed);
    if (tokens) {
        json_t *ids = json_array(), *logprobs = json_array();
        for (int i = 0; i < s->n_tokens; i++) {
            if (json_array_append_new(ids, json_integer(s->tokens[i])) != 0 ||
                json_array_append_new(logprobs, json_float(s->token_logprobs[i])) != 0)
                *failed = true;
        }
        vo_json_put(o, "tokens", ids, failed);
        vo_json_put(o, "token_logprobs", logprobs, failed);
    }
    vo_json_put(o, "temperature", json_float(s->temperature), failed);
    vo_json_put(o, "avg_logprob", json_float(s->avg_logprob), failed);
    vo_json_put(o, "compression_ratio", json_float(s->compression_ratio), failed);
    vo_json_put(o, "no_speech_prob", json_float(s->no_speech_prob), failed);
    if (s->speaker >= 0) vo_json_put(o, "speaker", json_integer(s->speaker), failed);
    if (s->language) {
        vo_json_put(o, "language", json_string(s->language), failed);
        vo_json_put(o, "language_probability", json_float(s->language_probability), failed);
    }
    if (s->recovered) vo_json_put(o, "recovered", json_true(), failed);
    if (s->words) vo_json_put(o, "words", json_words(s, failed), failed);
    return o;
}

/* Numbers and switches only: the strings of the settings lived with the caller. */
static json_t *json_settings(const vocis_transcribe_params *p, bool *failed) {
    json_t *o = json_object();
    vo_json_put(o, "temperature", json_float(p->temperature), failed);
    vo_json_put(o, "temperature_increment_on_fallback", json_float(p->temperature_increment),
                failed);
    vo_json_put(o, "best_of", json_integer(p->best_of), failed);
    vo_json_put(o, "beam_size", json_integer(p->beam_size), failed);
    vo_json_put(o, "patience", json_float(p->patience), failed);
    vo_json_put(o, "length_penalty", json_float(p->length_penalty), failed);
    vo_json_put(o, "suppress_blank", json_boolean(p->suppress_blank), failed);
    vo_json_put(o, "carry_initial_prompt", json_boolean(p->carry_initial_prompt), failed);
    vo_json_put(o, "condition_on_previous_text", json_boolean(p->condition_on_previous_text),
                failed);
    vo_json_put(o, "compression_ratio_threshold", json_float(p->compression_ratio_threshold),
                failed);
    vo_json_put(o, "logprob_threshold", json_float(p->logprob_threshold), failed);
    vo_json_put(o, "no_speech_threshold", json_float(p->no_speech_threshold), failed);
    vo_json_put(o, "without_timestamps", json_boolean(p->without_timestamps), failed);
    vo_json_put(o, "max_initial_timestamp", json_float(p->max_initial_timestamp), failed);
    vo_json_put(o, "word_timestamps", json_boolean(p->word_timestamps), failed);
    vo_json_put(o, "hallucination_silence_threshold",
                json_float(p->hallucination_silence_threshold), failed);
    vo_json_put(o, "recover", json_boolean(p->recover), failed);
    vo_json_put(o, "guard", json_boolean(p->guard), failed);
    vo_json_put(o, "chunking",
                vo_json_text(p->chunking == VOCIS_CHUNK_SPEECH ? "vad" : "sequential"), failed);
    vo_json_put(o, "max_tokens", json_integer(p->max_tokens), failed);
    vo_json_put(o, "seed", json_integer((json_int_t)p->seed), failed);
    return o;
}

/* An object for a stretch of time at the end of a list, which owns it; NULL when that failed. */
static json_t *add_timed(json_t *list, double start, double end, bool *failed) {
    json_t *o = json_object();
    if (json_array_append_new(list, o) != 0) {
        *failed = true;
        return NULL;
    }
    vo_json_put(o, "start", json_double(start), failed);
    vo_json_put(o, "end", json_double(end), failed);
    return o;
}

static json_t *json_account(const vocis_result *r, bool *failed) {
    json_t *list = json_array();
    for (int i = 0; i < r->n_account; i++) {
        const vocis_account *a = &r->account[i];
        json_t *o = add_timed(list, a->start, a->end, failed);
        vo_json_put(o, "cover", json_string(vo_cover_name(a->cover)), failed);
    }
    return list;
}

static json_t *json_removed(const vocis_result *r, bool *failed) {
    json_t *list = json_array();
    for (int i = 0; i < r->n_removed; i++) {
        const vocis_removed *m = &r->removed[i];
        json_t *o = add_timed(list, m->start, m->end, failed);
        vo_json_put(o, "text", vo_json_text(m->text), failed);
        vo_json_put(o, "reason", json_string(m->reason), failed);
    }
    return list;
}

static json_t *json_coverage(const vocis_coverage *c, bool *failed) {
    json_t *o = json_object();
    vo_json_put(o, "speech", json_double(c->speech), failed);
    vo_json_put(o, "lost", json_double(c->lost), failed);
    vo_json_put(o, "skipped", json_double(c->skipped), failed);
    vo_json_put(o, "recovered", json_double(c->recovered), failed);
    vo_json_put(o, "ratio", json_double(c->ratio), failed);
    return o;
}

static json_t *json_timings(const vocis_timings *t, bool *failed) {
    json_t *o = json_object();
    vo_json_put(o, "total", json_double(t->total), failed);
    vo_json_put(o, "mel", json_double(t->mel), failed);
    vo_json_put(o, "cut", json_double(t->cut), failed);
    vo_json_put(o, "encode", json_double(t->encode), failed);
    vo_json_put(o, "decode", json_double(t->decode), failed);
    vo_json_put(o, "windows", json_integer(t->windows), failed);
    vo_json_put(o, "fallbacks", json_integer(t->fallbacks), failed);
    vo_json_put(o, "steps", json_integer(t->steps), failed);
    vo_json_put(o, "tokens", json_integer(t->tokens), failed);
    vo_json_put(o, "proposed", json_integer(t->proposed), failed);
    vo_json_put(o, "accepted", json_integer(t->accepted), failed);
    return o;
}

void vo_write_json(vo_buf *out, const vocis_result *r, const vocis_write_params *p) {
    bool failed = false;
    json_t *o = json_object(), *segments = json_array();
    for (int i = 0; i < r->n_segments; i++)
        if (json_array_append_new(segments,
                                  json_segment(&r->segments[i], p->json_tokens, &failed)) != 0)
            failed = true;
    vo_json_put(o, "text", vo_json_text(r->text ? r->text : ""), &failed);
    vo_json_put(o, "language", vo_json_text(r->language), &failed);
    vo_json_put(o, "language_probability", json_float(r->language_probability), &failed);
    vo_json_put(o, "task", json_string(r->task == VOCIS_TRANSLATE ? "translate" : "transcribe"),
                &failed);
    vo_json_put(o, "duration", json_double(r->duration), &failed);
    vo_json_put(o, "segments", segments, &failed);
    vo_json_put(o, "coverage",
                r->coverage.known ? json_coverage(&r->coverage, &failed) : json_null(), &failed);
    vo_json_put(o, "account", json_account(r, &failed), &failed);
    vo_json_put(o, "removed", json_removed(r, &failed), &failed);
    vo_json_put(o, "settings", json_settings(&r->settings, &failed), &failed);
    vo_json_put(o, "timings", json_timings(&r->timings, &failed), &failed);
    vo_json_put(o, "peak_memory_bytes", json_integer((json_int_t)r->peak_bytes), &failed);
    vo_json_put(o, "model", vo_json_text(p->model), &failed);
    vo_json_put(o, "source", vo_json_text(p->source), &failed);
    if (failed)
        out->failed = true;
    else
        vo_json_write(o, JSON_INDENT(2) | JSON_REAL_PRECISION(15), out);
    vo_buf_puts(out, "\n");
    json_decref(o);
}
