/* SPDX-License-Identifier: MIT
 *
 * Phrases of the caller as the token sequences that decoding boosts.
 */
#ifndef VO_PIPELINE_BOOST_H
#define VO_PIPELINE_BOOST_H

#include "decode/boost.h"
#include "text/tokenizer.h"
#include "vocis.h"

/* Each phrase as it is and with its first letter as a capital, with and without a space before it.
 * Phrases without a letter or digit are left out. *boost: vo_boost_destroy; NULL when no phrase is
 * left. VO_ERR_ARGUMENT names the phrase that breaks a limit of vocis_boost. */
vo_status vo_boost_phrases(const vo_tokenizer *tokenizer, const vocis_boost *phrases, int n,
                           vo_boost **boost, vo_error *err);

#endif
