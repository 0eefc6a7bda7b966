/* SPDX-License-Identifier: MIT */
#include "pipeline/rescript.h"

#include "base/memory.h"
#include "text/script.h"

/* Fewer letters may be a name, or "OK". */
enum { LEAST_LETTERS = 8 };

bool vo_rescript_disagrees(const char *text, size_t length, int language) {
    const vo_letters letters = vo_count_letters(text, length, vo_language_scripts(language));
    return letters.all >= LEAST_LETTERS && letters.inside < letters.all - letters.inside;
}

static vo_status ban_others(vo_rescript *self, const vo_tokenizer *tokenizer, int language,
                            vo_error *err) {
    const vo_scripts scripts = vo_language_scripts(language);
    const int32_t eot = vo_tokenizer_ids(tokenizer)->eot;
    vo_status status = VO_OK;
    self->banned.n = 0;
    self->language = language;
    for (int32_t id = 0; status == VO_OK && id < eot; id++) {
        size_t size;
        const char *bytes = vo_tokenizer_token(tokenizer, id, &size);
        const vo_letters letters = vo_count_letters(bytes, size, scripts);
        if (letters.inside < letters.all) status = vo_tokens_append(&self->banned, &id, 1, err);
    }
    self->filter = (vo_suppress_filter){self->banned.ids, self->banned.n, false};
    return status;
}

vo_status vo_rescript_force(vo_rescript *self, const vo_tokenizer *tokenizer, int language,
                            const char *before, vo_error *err) {
    vo_rescript_reset(self);
    self->before = vo_strdup(before);
    if (!self->before) return vo_fail(err, VO_ERR_MEMORY, "no memory for text");
    self->state = VO_SCRIPT_FORCED;
    if (self->banned.n > 0 && self->language == language) return VO_OK;
    return ban_others(self, tokenizer, language, err);
}

void vo_rescript_reset(vo_rescript *self) {
    vo_free(self->before);
    self->before = NULL;
    self->state = VO_SCRIPT_FREE;
}

void vo_rescript_free(vo_rescript *self) {
    vo_rescript_reset(self);
    vo_tokens_free(&self->banned);
}
