#include "single.h"

#include <stdio.h>

#include "written.h"

static const float own_limit[1] = {2.0f};
float acting;
unsigned wrong;

void expect(int holds, const char *what)
{
    if (!holds) {
        printf("not so: %s\n", what);
        wrong++;
    }
}

static void write_input(void *self, const float *u)
{
    (void)self;
    acting = u[0];
}

struct machine single_machine(uint32_t (*read_state)(void *self, float *x))
{
    struct machine machine = {0};
    machine.schema = 7;
    machine.n_states = machine.n_inputs = 1;
    machine.step_ns = STEP_NS;
    machine.longest_timeout_ns = 500 * STEP_NS;
    machine.limits = own_limit;
    machine.read = read_state;
    machine.write = write_input;
    return machine;
}

uint8_t *put_setup(uint8_t *at, float limit, int64_t timeout)
{
    at = put(put(put(at, 7, 4), 1, 2), 1, 2);
    at = put(put(put(at, (uint64_t)STEP_NS, 8), (uint64_t)(10 * STEP_NS), 8), (uint64_t)timeout, 8);
    at = put_float(put_float(at, 1.0f), limit);
    return put_float(put_float(put_float(at, -2.0f), 0.0f), 0.0f);
}
