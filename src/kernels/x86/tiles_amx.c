/* SPDX-License-Identifier: MIT
 *
 * The tile registers of AMX, which a thread configures before it may use them. All eight are as
 * large as they can be: 16 rows of 64 bytes.
 */
#include <immintrin.h>

#include "kernels/x86/x86.h"

void vo_amx_tiles_begin(void) {
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1,
                .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _Static_assert(sizeof config == 64, "the processor reads 64 bytes");
    _tile_loadconfig(&config);
}

void vo_amx_tiles_end(void) {
    _tile_release();
}
