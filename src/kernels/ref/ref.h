/* SPDX-License-Identifier: MIT
 *
 * Tile sizes of the plain C level: small, and unlike those of any vector level.
 */
#ifndef VO_KERNELS_REF_H
#define VO_KERNELS_REF_H

enum { VO_REF_MR = 4, VO_REF_NR = 8 };

#endif
