#include "simulated.h"

#include <math.h>

#include MACHINE_HEADER /* of `servonode hil header FILE` */

#ifdef HIL_MEASURE
#define WAITING 256u /* readings that may be on their way; more are lost */

void HIL_MEASURE(double t, const double *x, const double *u, double *z);

static const struct {
    double noise, quantum, period, delay, drop;
    int wraps;
} stated[HIL_N_SENSORS] = HIL_SENSORS;

static uint64_t now, next[HIL_N_SENSORS], number[HIL_N_SENSORS]; /* steps; when each reads next, for the how many-th time */
static struct {
    uint64_t step, there;
    struct reading reading;
} waiting[WAITING];
static unsigned n_waiting;
static int reads; /* somebody asks for readings */
static uint64_t random_bits = 88172645463325252u;

/* Uniform between 0 and 1, neither of them. */
static double uniform(void)
{
    random_bits ^= random_bits << 13;
    random_bits ^= random_bits >> 7;
    random_bits ^= random_bits << 17;
    return ((double)(random_bits >> 12) + 0.5) / 4503599627370496.0;
}

static double normal(void) { return sqrt(-2.0 * log(uniform())) * cos(6.283185307179586 * uniform()); }

static void take(unsigned sensor, double value)
{
    value += stated[sensor].noise * normal();
    if (stated[sensor].wraps)
        value -= 6.283185307179586 * floor((value + 3.141592653589793) / 6.283185307179586);
    if (stated[sensor].quantum > 0.0)
        value = round(value / stated[sensor].quantum) * stated[sensor].quantum;
    if (uniform() < stated[sensor].drop || n_waiting == WAITING)
        return;
    waiting[n_waiting].step = now;
    waiting[n_waiting].there = now + (uint64_t)stated[sensor].delay;
    waiting[n_waiting].reading.sensor = (uint16_t)sensor;
    waiting[n_waiting++].reading.value = (float)value;
}

void sensors_read(const double *x, const double *u, int anew)
{
    double z[HIL_N_SENSORS];
    if (!reads)
        return;
    if (anew)
        n_waiting = 0;
    now += !anew;
    HIL_MEASURE((double)now * (double)HIL_STEP_NS * 1e-9, x, u, z);
    for (unsigned i = 0; i < HIL_N_SENSORS; i++) {
        if (anew) {
            number[i] = 0;
            next[i] = now;
        }
        if (next[i] > now)
            continue;
        take(i, z[i]);
        next[i] += (uint64_t)(round((double)(number[i] + 1) * stated[i].period) - round((double)number[i] * stated[i].period));
        number[i]++;
    }
}

static unsigned sense(void *self, struct reading *out, uint32_t *code)
{
    unsigned given = 0, kept = 0;
    (void)self;
    *code = 0;
    for (unsigned i = 0; i < n_waiting; i++) {
        if (waiting[i].there > now || given == PACKET_READINGS) {
            waiting[kept++] = waiting[i];
            continue;
        }
        out[given] = waiting[i].reading;
        out[given++].ago = (uint16_t)(now - waiting[i].step < UINT16_MAX ? now - waiting[i].step : UINT16_MAX);
    }
    n_waiting = kept;
    return given;
}

int simulated_sensors(struct machine *machine)
{
    reads = 1;
    machine->schema = HIL_READINGS_SCHEMA;
    machine->n_sensors = HIL_N_SENSORS;
    machine->sense = sense;
    machine->read = 0;
    machine->law = 0;
    return 1;
}
#else
void sensors_read(const double *x, const double *u, int anew)
{
    (void)x;
    (void)u;
    (void)anew;
}

int simulated_sensors(struct machine *machine)
{
    (void)machine;
    return 0;
}
#endif
