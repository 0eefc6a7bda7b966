/* SPDX-License-Identifier: MIT
 *
 * What stands before the text of a window.
 */
#include "pipeline/prompt.h"

#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

vo_status vo_tokens_append(vo_token_list *list, const int32_t *ids, int n, vo_error *err) {
    if (n > list->capacity - list->n) {
        int64_t capacity = 2 * ((int64_t)list->n + n) + 64;
        int32_t *grown = capacity < INT32_MAX / 4
                             ? vo_realloc(list->ids, (size_t)capacity * sizeof *grown)
                             : NULL;
        if (!grown) return vo_fail(err, VO_ERR_MEMORY, "no memory for tokens");
        list->ids = grown;
        list->capacity = (int)capacity;
    }
    if (n > 0) memcpy(list->ids + list->n, ids, (size_t)n * sizeof *ids);
    list->n += n;
    return VO_OK;
}

void vo_tokens_free(vo_token_list *list) {
    vo_free(list->ids);
    *list = (vo_token_list){0};
}

static bool is_blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

const char *vo_strip(const char *text, size_t *length) {
    while (is_blank(*text)) text++;
    *length = strlen(text);
    while (*length > 0 && is_blank(text[*length - 1])) --*length;
    return text;
}

vo_status vo_encode_spaced(const vo_tokenizer *tokenizer, const char *text, vo_token_list *list,
                           vo_error *err) {
    size_t length;
    const char *stripped = vo_strip(text, &length);
    char *spaced = vo_alloc(length + 2);
    int32_t *ids = NULL;
    int n = 0;
    if (!spaced) return vo_fail(err, VO_ERR_MEMORY, "no memory for a prompt");
    spaced[0] = ' ';
    memcpy(spaced + 1, stripped, length);
    vo_status status = vo_tokenizer_encode(tokenizer, spaced, length + 1, &ids, &n, err);
    if (status == VO_OK) status = vo_tokens_append(list, ids, n, err);
    vo_free(ids);
    vo_free(spaced);
    return status;
}

vo_status vo_parse_suppress(const vo_tokenizer *tokenizer, const char *text, vo_token_list *list,
                            vo_error *err) {
    const vo_whisper_ids *ids = vo_tokenizer_ids(tokenizer);
    vo_status status = VO_OK;
    if (!text || !*text) return VO_OK;
    while (*text && status == VO_OK) {
        char *end;
        errno = 0;
        long value = strtol(text, &end, 10);
        if (end == text || errno || value >= ids->n_vocab || (*end && *end != ','))
            return vo_fail(err, VO_ERR_ARGUMENT,
                           "suppress_tokens wants -1 or token ids with commas between, not \"%s\"",
                           text);
        if (value >= 0) {
            int32_t id = (int32_t)value;
            status = vo_tokens_append(list, &id, 1, err);
        } else {
            int n;
            const int32_t *non_speech = vo_tokenizer_non_speech(tokenizer, &n);
            status = vo_tokens_append(list, non_speech, n, err);
        }
        text = *end ? end + 1 : end;
    }
    const int32_t special[] = {ids->transcribe, ids->translate, ids->sot,
                               ids->sot_prev,   ids->sot_lm,    ids->no_speech};
    return status == VO_OK ? vo_tokens_append(list, special, 6, err) : status;
}

/* Previous text that may stand before a window, at most half a context minus one token. */
static vo_status append_previous(const vocis_transcribe_params *params, const vo_token_list *all,
                                 int n_initial, int reset_since, int room, vo_token_list *prompt,
                                 vo_error *err) {
    if (all->n == 0) return VO_OK;
    if (!params->carry_initial_prompt) {
        int n = all->n - reset_since;
        int keep = n < room ? n : room;
        return vo_tokens_append(prompt, all->ids + all->n - keep, keep, err);
    }
    int initial = n_initial < room ? n_initial : room; /* the end of an overlong one counts */
    vo_status status = vo_tokens_append(prompt, all->ids + n_initial - initial, initial, err);
    int since = n_initial > reset_since ? n_initial : reset_since;
    int n = all->n - since;
    int keep = n < room - initial ? n : room - initial;
    if (status != VO_OK || keep <= 0) return status;
    return vo_tokens_append(prompt, all->ids + all->n - keep, keep, err);
}

int vo_start_tokens(const vocis_session *session, const vocis_transcribe_params *params,
                    int32_t language, int32_t start[VO_MAX_START]) {
    const vo_whisper_ids *ids = vo_tokenizer_ids(session->model->tokenizer);
    start[0] = ids->sot;
    start[1] = language;
    start[2] = params->task == VOCIS_TRANSLATE ? ids->translate : ids->transcribe;
    return ids->multilingual ? 3 : 1;
}

vo_status vo_build_prompt(const vocis_session *session, const vocis_transcribe_params *params,
                          const vo_token_list *all, int n_initial, int reset_since,
                          int32_t language, const vo_token_list *prefix, vo_token_list *prompt,
                          int *sot_index, vo_error *err) {
    const vo_whisper_ids *ids = vo_tokenizer_ids(session->model->tokenizer);
    int half = session->model->whisper->dims.n_text_ctx / 2;
    prompt->n = 0;
    vo_status status = vo_tokens_append(prompt, &ids->sot_prev, 1, err);
    if (status == VO_OK)
        status = append_previous(params, all, n_initial, reset_since, half - 1, prompt, err);
    if (prompt->n == 1) prompt->n = 0; /* nothing precedes */
    *sot_index = prompt->n;
    int32_t start[VO_MAX_START];
    const int n_start = vo_start_tokens(session, params, language, start);
    if (status == VO_OK) status = vo_tokens_append(prompt, start, n_start, err);
    if (status == VO_OK && params->without_timestamps)
        status = vo_tokens_append(prompt, &ids->no_timestamps, 1, err);
    /* The reference lets a prefix take what the sample length leaves of half a context: with
     * the default length that is nothing, which Python's slicing turns into everything. */
    int room = half - 8;
    int keep = prefix->n < room ? prefix->n : room;
    if (status == VO_OK && keep > 0)
        status = vo_tokens_append(prompt, prefix->ids + prefix->n - keep, keep, err);
    return status;
}
