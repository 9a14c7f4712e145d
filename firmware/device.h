/* The machine's side of a run: handshake, inputs, states, and its own watch over a host that falls silent.
 *
 * A board calls device_receive with each packet that comes and device_advance_to whenever it has time, at least once a
 * step, and gives the function that sends bytes. Times are nanoseconds of any clock that only grows: where one is before
 * the last, as of a counter of 32 bits that begins anew, the run ends with FAULT_CLOCK. Call all of it from one context,
 * never from an interrupt while the main loop is in it.
 */
#ifndef SERVONODE_DEVICE_H
#define SERVONODE_DEVICE_H

#include "machine.h"
#include "packet.h"

#define DEVICE_SENT 16u /* a power of two */

struct sent {
    int64_t ns;
    uint32_t seq;
};

struct device {
    const struct machine *machine;
    uint32_t source; /* of this start: another number after each reset, not zero */
    void (*send)(void *to, const uint8_t *bytes, size_t size);
    void *to;

    /* the run that goes on, or the last one */
    uint32_t run, host;
    uint32_t setup_seq; /* of the setup that began it */
    int running, lockstep;
    uint32_t fault; /* why this machine has no part in it; 0: it has */
    uint64_t fault_detail;
    uint64_t first, k;  /* steps: at which the run began, and now */
    int64_t begin_ns;   /* when the first step was */
    int64_t now_ns;     /* the newest time that was given */
    double step_wall_ns;
    uint64_t every;     /* steps between two states */
    struct setup setup; /* with its limits made the smaller of the host's and the machine's */

    /* inputs */
    float u[PACKET_INPUTS], x[PACKET_STATES];
    uint64_t measured; /* the step of x */
    uint32_t taken;   /* seq of the newest that was taken in this run; PACKET_NONE: none was */
    int64_t fresh_ns; /* when that came */
    int64_t timeout_ns;
    int driven;  /* a host's input has acted: from then on the safe action acts wherever none comes in time */
    float driven_limits[PACKET_INPUTS]; /* of the last run in which one did; they too hold until the next one comes */
    int safe;    /* no input came in time: the safe action acts */
    int braking; /* the run is over: the safe action acts on */

    struct reading readings[PACKET_READINGS]; /* that were sent last; of step `sensed` */
    unsigned n_readings;
    uint64_t sensed;

    /* the machine's own law */
    struct applied asked; /* what was taken last: the inputs that the law must keep near, and its goal */
    int law;             /* the law is to act, and no safe action does */
    int decided;         /* 1: `own` is what it asks for; 0: it has not been asked yet; -1: it has no answer */
    int clipped;         /* something else acts than it asks for */
    uint64_t instant; /* the control period in which that was */
    float own[PACKET_INPUTS];

    uint32_t seq;     /* of the next packet */
    struct sent sent[DEVICE_SENT]; /* when some of the newest were, at least 1/8 of the timeout apart */
    unsigned n_sent;
    uint32_t refused; /* packets that were not believed */
};

/* A machine that knows no run; zero inputs act. */
void device_init(struct device *device, const struct machine *machine, uint32_t source,
                 void (*send)(void *to, const uint8_t *bytes, size_t size), void *to);

/* Take what came at the time `now`: 1 if it is from the host of the run, 0 if it is refused and without effect. */
int device_receive(struct device *device, int64_t now, const uint8_t *bytes, size_t size);

/* Let the machine's own time pass: steps, the safe action where no input came, a state where one is due. */
void device_advance_to(struct device *device, int64_t now);

/* When to call device_advance_to next [ns]; INT64_MAX where time stands still. */
int64_t device_due(const struct device *device);

/* Whether a run goes on whose host has not fallen silent: packets of anybody else are refused. */
int device_has_host(const struct device *device, int64_t now);

#endif
