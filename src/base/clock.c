/* SPDX-License-Identifier: MIT
 *
 * Time and memory as the operating system sees them.
 */
#include "base/clock.h"

#include <sys/resource.h>
#include <time.h>

double vo_clock_seconds(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) return 0.0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void vo_clock_sleep(double seconds) {
    if (!(seconds > 0)) return;
    if (seconds > 1e6) seconds = 1e6;
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    nanosleep(&t, NULL);
}

unsigned long long vo_process_peak_rss(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0 || usage.ru_maxrss < 0) return 0;
#if defined(__APPLE__)
    return (unsigned long long)usage.ru_maxrss; /* bytes there, kilobytes elsewhere */
#else
    return (unsigned long long)usage.ru_maxrss * 1024ULL;
#endif
}
