/* SPDX-License-Identifier: MIT */
#ifndef VO_BASE_CLOCK_H
#define VO_BASE_CLOCK_H

/* Seconds on a monotonic clock with an arbitrary zero. Thread safe. */
double vo_clock_seconds(void);
/* Does nothing for so long, or less when a signal comes. */
void vo_clock_sleep(double seconds);

/* Largest resident set size of this process so far, in bytes; 0 where unknown. */
unsigned long long vo_process_peak_rss(void);

#endif
