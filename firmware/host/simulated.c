#include "simulated.h"

#include <math.h>

#include MACHINE_HEADER /* of `servonode hil header FILE` */

#ifndef OWN_LIMIT
#define OWN_LIMIT 2.0f /* N m; this machine's own: a host's act only below it */
#endif
#define LONGEST_TIMEOUT_NS INT64_C(500000000)

void HIL_PLANT_STEP(double t, double *x, const double *u);

static double state[HIL_N_STATES + 1]; /* the last is the work, which nobody reads */
static double inputs[HIL_N_INPUTS];
static float limits[HIL_N_INPUTS];

void (*simulated_observer)(uint64_t k, const double *x, const double *u);

static void show(uint64_t k)
{
    if (simulated_observer)
        simulated_observer(k, state, inputs);
}

static uint32_t read_state(void *self, float *x)
{
    (void)self;
    for (unsigned i = 0; i < HIL_N_STATES; i++)
        x[i] = (float)state[i];
    return 0;
}

static void write_inputs(void *self, const float *u)
{
    (void)self;
    for (unsigned i = 0; i < HIL_N_INPUTS; i++)
        inputs[i] = (double)u[i];
}

static void advance(void *self, double t)
{
    (void)self;
    HIL_PLANT_STEP(t, state, inputs);
    show((uint64_t)llround(t * 1e9 / (double)HIL_STEP_NS) + 1);
}

static void start(void *self, const float *x)
{
    (void)self;
    for (unsigned i = 0; i < HIL_N_STATES; i++)
        state[i] = (double)x[i];
    state[HIL_N_STATES] = 0.0;
    show(0);
}

#ifdef HIL_LAW
#if defined(BOARD_OPERATIONS_PER_S) && defined(HIL_LAW_OPERATIONS_PER_S) && HIL_LAW_OPERATIONS_PER_S > BOARD_OPERATIONS_PER_S
#error "What the law keeps may take longer than its period on this board: lengthen controller.period, or keep less."
#endif
int HIL_LAW(double t, const double *x, const double *y, double *out);

static const uint8_t goal_orders[] = HIL_GOAL_ORDERS;

static int answer(void *self, double t, const float *x, const double *y, float *u)
{
    double measured[HIL_N_STATES], out[HIL_N_OUT];
    (void)self;
    for (unsigned i = 0; i < HIL_N_STATES; i++)
        measured[i] = (double)x[i];
    const int status = HIL_LAW(t, measured, y, out);
    for (unsigned i = 0; status == 0 && i < HIL_N_INPUTS; i++)
        u[i] = (float)out[i];
    return status;
}

static void give_law(struct machine *machine)
{
    machine->law = answer;
    machine->law_schema = HIL_LAW_SCHEMA;
    machine->n_goal = HIL_N_GOAL;
    machine->goal_orders = goal_orders;
}
#else
static void give_law(struct machine *machine) { (void)machine; }
#endif

struct machine simulated_machine(int any_speed, int own_law)
{
    const float start_at[HIL_N_STATES] = HIL_START;
    struct machine machine = {0};
    start(0, start_at);
    for (unsigned i = 0; i < HIL_N_INPUTS; i++)
        limits[i] = OWN_LIMIT;
    machine.schema = HIL_SCHEMA;
    machine.n_states = HIL_N_STATES;
    machine.n_inputs = HIL_N_INPUTS;
    machine.step_ns = HIL_STEP_NS;
    machine.longest_timeout_ns = LONGEST_TIMEOUT_NS;
    machine.limits = limits;
    machine.simulated = 1;
    machine.any_speed = any_speed;
    machine.read = read_state;
    machine.write = write_inputs;
    machine.advance = advance;
    machine.start = start;
    if (own_law)
        give_law(&machine);
    return machine;
}
