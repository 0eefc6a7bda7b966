/* SPDX-License-Identifier: MIT
 *
 * What cross-attention looks at while the decoder reads a text that is known, and how likely each
 * of its tokens is: what times of words are made from (docs/models/whisper.md). A plan of its own,
 * because logits of every token are wanted and no step of decoding should pay for that. Few tokens
 * at a time: logits of all would be larger than everything else here.
 */
#include "base/memory.h"
#include "models/whisper/state.h"

#include <string.h>

enum { CAPACITY = 32 }; /* tokens of one run */

typedef struct vo_whisper_aligner {
    vo_whisper_text_plan text;
    int32_t *seen;    /* [CAPACITY] */
    float **weights;  /* [n_alignment_heads], each [CAPACITY][n_audio_ctx], into the plan */
    float *softmaxed; /* [CAPACITY][n_vocab], into the plan */
} vo_whisper_aligner;

void vo_whisper_aligner_destroy(vo_whisper_aligner *a) {
    if (!a) return;
    vo_plan_destroy(a->text.plan);
    vo_free(a->weights);
    vo_free(a);
}

/* outputs: [n_alignment_heads + 1] */
static vo_status create_plan(const vo_whisper_state *s, vo_whisper_aligner *a, vo_array **outputs,
                             vo_error *err) {
    const vo_whisper *model = s->model;
    const int heads = model->n_alignment_heads;
    vo_graph *g = vo_whisper_text_graph(s, err);
    if (!g) return VO_ERR_MEMORY;
    vo_whisper_text_inputs in = vo_whisper_make_inputs(s->self, g, CAPACITY, CAPACITY);
    in.seen = vo_input(g, VO_I32, CAPACITY, 0, VO_PARAM_ROWS, 1);
    in.weights = outputs;
    vo_array *logits = vo_whisper_decoder(g, model, s->self, s->cross, &in);
    outputs[heads] = vo_softmax(g, logits);
    vo_status status =
        vo_plan_create(&s->runtime, g, outputs, heads + 1,
                       (vo_plan_params){.observer = model->observer}, &a->text.plan, err);
    if (status != VO_OK) return status;
    vo_whisper_find_inputs(&a->text, &in);
    a->seen = vo_plan_data(a->text.plan, in.seen);
    for (int i = 0; i < heads; i++) a->weights[i] = vo_plan_data(a->text.plan, outputs[i]);
    a->softmaxed = vo_plan_data(a->text.plan, outputs[heads]);
    return VO_OK;
}

static vo_status create_aligner(vo_whisper_state *s, vo_error *err) {
    const size_t heads = (size_t)s->model->n_alignment_heads;
    vo_whisper_aligner *a = vo_alloc(sizeof *a);
    vo_array **outputs = vo_alloc_array(heads + 1, sizeof(vo_array *));
    if (a) a->weights = vo_alloc_array(heads, sizeof *a->weights);
    vo_status status = a && outputs && a->weights
                           ? create_plan(s, a, outputs, err)
                           : vo_fail(err, VO_ERR_MEMORY, "no memory for times of words");
    vo_free(outputs);
    if (status == VO_OK)
        s->aligner = a;
    else
        vo_whisper_aligner_destroy(a);
    return status;
}

/* The share of one id in what all below n have. The softmax is over all ids, which leaves ratios as
 * they are. Eight sums, so that no addition waits for the one before. */
static float share(const float *softmaxed, int32_t id, int n) {
    enum { SUMS = 8 };
    double sum[SUMS] = {0}, total = 0;
    int i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int k = 0; k < SUMS; k++) sum[k] += (double)softmaxed[i + k];
    for (; i < n; i++) total += (double)softmaxed[i];
    for (int k = 0; k < SUMS; k++) total += sum[k];
    return total > 0 ? (float)((double)softmaxed[id] / total) : 0;
}

/* Tokens [from, from + n), with what they give. */
static vo_status run_piece(vo_whisper_state *s, const vo_whisper_alignment *job, int from, int n,
                           vo_error *err) {
    const vo_whisper_aligner *a = s->aligner;
    const vo_whisper_dims *dims = &s->model->dims;
    const int end = job->first + job->n_scored - 1;
    int picked = 0, first = from > job->first - 1 ? from : job->first - 1;
    for (int i = first; i < from + n && i < end; i++) a->text.picked[picked++] = i - from;
    for (int i = 0; i < n; i++) a->seen[i] = job->n_seen;
    vo_status status = vo_whisper_put_tokens(s, &a->text, &job->feed, from, n, 0, err);
    if (status == VO_OK) status = vo_whisper_run_text(s, &a->text, n, picked, err);
    if (status != VO_OK) return status;
    const size_t width = (size_t)job->n_seen;
    for (int h = 0; h < s->model->n_alignment_heads; h++)
        for (int i = 0; i < n; i++)
            memcpy(job->weights +
                       ((size_t)h * (size_t)job->feed.n_tokens + (size_t)(from + i)) * width,
                   a->weights[h] + (size_t)i * (size_t)dims->n_audio_ctx, width * sizeof(float));
    for (int i = 0; i < picked; i++)
        job->probabilities[first + i + 1 - job->first] =
            share(a->softmaxed + (size_t)i * (size_t)dims->n_vocab, job->feed.tokens[first + i + 1],
                  job->n_text_ids);
    return VO_OK;
}

vo_status vo_whisper_align(vo_whisper_state *s, const vo_whisper_alignment *job, vo_error *err) {
    const int n = job->feed.n_tokens;
    vo_status status = vo_whisper_check_feed(s, &job->feed, err);
    if (status == VO_OK && (job->n_seen < 1 || job->n_seen > s->model->dims.n_audio_ctx ||
                            job->first < 1 || job->n_scored < 0 || job->n_scored > n - job->first ||
                            job->n_text_ids < 1 || job->n_text_ids > s->model->dims.n_vocab))
        status = vo_fail(err, VO_ERR_ARGUMENT, "a text cannot be aligned to %d positions of audio",
                         job->n_seen);
    if (status == VO_OK && !s->aligner) status = create_aligner(s, err);
    if (status == VO_OK) status = vo_kv_truncate(s->self, job->feed.row, 0, err);
    for (int from = 0; status == VO_OK && from < n; from += CAPACITY)
        status = run_piece(s, job, from, n - from < CAPACITY ? n - from : CAPACITY, err);
    if (status == VO_OK) status = vo_kv_truncate(s->self, job->feed.row, 0, err);
    return status;
}
