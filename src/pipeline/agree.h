/* SPDX-License-Identifier: MIT
 *
 * Text that firms up: what two successive hypotheses about growing audio agree on, word by word
 * from the left, is stable and never taken back (LocalAgreement-2: Liu, Spanakis and Niehues 2020;
 * Machacek, Dabre and Bojar 2023). Each hypothesis is decoded with the stable text as its
 * beginning, so that it continues it.
 */
#ifndef VO_PIPELINE_AGREE_H
#define VO_PIPELINE_AGREE_H

#include "base/status.h"

/* Zero-initialise. Both are NULL or text; `rest` is what the newest hypothesis says beyond. */
typedef struct vo_agreement {
    char *stable, *rest;
} vo_agreement;

/* continuation: of the stable text as it is now. A word is what stands between blanks, with the
 * blanks before it; in scripts that set none, a character. */
vo_status vo_agree(vo_agreement *agreement, const char *continuation, vo_error *err);
void vo_agreement_clear(vo_agreement *agreement);

#endif
