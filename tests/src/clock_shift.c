/* Preloaded into a process, shifts its wall clock by the seconds in TOLLGATE_TEST_CLOCK_OFFSET.
   The other clocks keep their values: timeouts and intervals must not depend on the wall clock. */

#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset;

__attribute__((constructor)) static void read_offset(void) {
    const char *text = getenv("TOLLGATE_TEST_CLOCK_OFFSET");
    if (text) offset = atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    long result = syscall(SYS_clock_gettime, clock, at);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += offset;
    return (int)result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
