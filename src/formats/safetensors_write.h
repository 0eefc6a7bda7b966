/* SPDX-License-Identifier: MIT
 *
 * Writing a safetensors file whose tensors come piece by piece, in any order: first all names and
 * shapes, then the data. The memory needed is that of the header.
 */
#ifndef VO_FORMATS_SAFETENSORS_WRITE_H
#define VO_FORMATS_SAFETENSORS_WRITE_H

#include "base/dtype.h"

typedef struct vo_safetensors_writer vo_safetensors_writer;

/* A new file, which gets its name when it is committed. An existing one is refused, unless it may
 * be replaced. One thread at a time. */
vo_status vo_safetensors_create(const char *path, bool replace, vo_safetensors_writer **writer,
                                vo_error *err);
/* Without a commit nothing is left behind. NULL allowed. */
void vo_safetensors_destroy(vo_safetensors_writer *writer);

/* One string of the header's __metadata__. */
vo_status vo_safetensors_metadata(vo_safetensors_writer *writer, const char *key, const char *value,
                                  vo_error *err);
/* Announces a tensor of a plain type; *index is what vo_safetensors_write calls it. */
vo_status vo_safetensors_add(vo_safetensors_writer *writer, const char *name, vo_dtype dtype,
                             const int64_t *shape, int rank, size_t *index, vo_error *err);
/* All tensors were announced: places them and writes the header. */
vo_status vo_safetensors_begin(vo_safetensors_writer *writer, vo_error *err);
/* The next bytes of one tensor, little-endian. */
vo_status vo_safetensors_write(vo_safetensors_writer *writer, size_t index, const void *data,
                               size_t bytes, vo_error *err);
/* VO_ERR_ARGUMENT when a tensor is not complete. Flushes to the disk, then renames. */
vo_status vo_safetensors_commit(vo_safetensors_writer *writer, vo_error *err);

/* Bytes of all tensors, after begin. */
uint64_t vo_safetensors_bytes(const vo_safetensors_writer *writer);

#endif
