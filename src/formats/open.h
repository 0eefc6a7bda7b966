/* SPDX-License-Identifier: MIT
 *
 * Between weights.c (the table) and open.c (paths and folders); readers need weights.h only.
 */
#ifndef VO_FORMATS_OPEN_H
#define VO_FORMATS_OPEN_H

#include "formats/weights.h"

/* The reader for these bytes; else an error that says what the file is and what to do. */
vo_status vo_weight_format_recognise(const unsigned char *data, size_t size, const char *file_name,
                                     const vo_weight_format **format, vo_error *err);

vo_status vo_weights_create(vo_weights **weights, vo_error *err);
/* Reads one file (one shard) into the table. */
vo_status vo_weights_read(vo_weights *weights, const unsigned char *data, size_t size,
                          const char *file_name, vo_error *err);
/* After the last one. */
vo_status vo_weights_finish(vo_weights *weights, vo_error *err);
/* Takes the map, also on failure. */
vo_status vo_weights_take_map(vo_weights *weights, vo_map *map, vo_error *err);
/* Takes the string (vo_alloc memory). */
void vo_weights_set_folder(vo_weights *weights, char *folder);

#endif
