/* Nanoseconds that only grow, from a counter of 32 bits that begins anew. */
#ifndef SERVONODE_CLOCK_H
#define SERVONODE_CLOCK_H

#include <stdint.h>

struct clock {
    uint32_t last;  /* what the counter was */
    uint64_t ticks; /* in all */
};

/* The time now [ns] by what the counter is now; call it at least once in 2^32 ticks. */
static inline int64_t clock_ns(struct clock *clock, uint32_t counter, uint32_t ticks_per_us)
{
    clock->ticks += (uint32_t)(counter - clock->last);
    clock->last = counter;
    return (int64_t)(clock->ticks / ticks_per_us * 1000u + clock->ticks % ticks_per_us * 1000u / ticks_per_us);
}

#endif
