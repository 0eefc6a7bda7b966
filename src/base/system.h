/* SPDX-License-Identifier: MIT
 *
 * Private to base/ and its tests: what the files that talk to the operating system share.
 */
#ifndef VO_BASE_SYSTEM_H
#define VO_BASE_SYSTEM_H

#include "base/status.h"

/* "<what> <subject>: <the system's reason>", with a status that fits errno value `code`. */
vo_status vo_fail_system(vo_error *err, int code, const char *what, const char *subject);

/* open, close-on-exec, again while signals interrupt it; -1 and errno. */
int vo_open(const char *path, int flags, unsigned mode);
/* Makes the new name of a file survive a power cut; not every file system can, and none of them
 * makes the content wrong. */
void vo_sync_folder_of(const char *path);

/* Cores that the cgroup CPU quota (v1 or v2) allows, rounded up; 0: no quota. `root` stands
 * before /proc and /sys, so that a test can bring its own. */
int vo_cpu_quota_cores(const char *root);

/* Physical cores among the logical CPUs that in_mask[0..n-1] names. */
int vo_cpu_count_cores(const char *root, const bool *in_mask, int n);

#endif
