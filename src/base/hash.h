/* SPDX-License-Identifier: MIT */
#ifndef VO_BASE_HASH_H
#define VO_BASE_HASH_H

#include "base/status.h"

/* Incremental SHA-256 (libcrypto underneath). */
typedef struct vo_sha256 vo_sha256;
vo_sha256 *vo_sha256_create(void);
void vo_sha256_update(vo_sha256 *hash, const void *data, size_t size);
/* Lower-case hex with NUL. The object can be destroyed only, afterwards. */
void vo_sha256_finish(vo_sha256 *hash, char hex[65]);
void vo_sha256_destroy(vo_sha256 *hash);
vo_status vo_sha256_file(const char *path, char hex[65], vo_error *err);

/* CRC-32C (Castagnoli) of what came before, 0 at first, and these bytes: notices damage, not
 * malice. */
uint32_t vo_crc32c(uint32_t crc, const void *data, size_t size);

#endif
