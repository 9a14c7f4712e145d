#include "device.h"

#include <math.h>
#include <string.h>

#define FASTEST_NS INT64_C(1000000) /* between two states, unless the control period is shorter */
#define SLOWEST 1e-3f               /* plant seconds per second, of a simulation */
#define FASTEST 1e3f
#define LEAP UINT64_C(1000000)      /* steps that one input in lockstep may ask for */

void device_init(struct device *device, const struct machine *machine, uint32_t source,
                 void (*send)(void *to, const uint8_t *bytes, size_t size), void *to)
{
    memset(device, 0, sizeof *device);
    device->machine = machine;
    device->source = source ? source : 1;
    device->send = send;
    device->to = to;
    device->taken = PACKET_NONE;
    machine->write(machine->self, device->u);
}

int device_has_host(const struct device *device, int64_t now)
{
    return device->running && now - device->fresh_ns < device->timeout_ns;
}

/* sending */

static struct packet header(struct device *device, uint32_t run, uint64_t step)
{
    struct packet head = {0};
    head.run = run;
    head.source = device->source;
    head.seq = device->seq;
    device->seq += device->seq < PACKET_NONE - 1; /* the fault that says that they are used up has the last number */
    head.reply = device->taken;
    head.step = step < PACKET_LAST_STEP ? step : PACKET_LAST_STEP;
    return head;
}

static void send_fault(struct device *device, uint32_t run, uint64_t step, uint32_t code, uint64_t detail)
{
    uint8_t bytes[PACKET_SIZE];
    const struct packet head = header(device, run, step);
    device->send(device->to, bytes, packet_write_fault(&head, code, detail, bytes));
}

/* inputs */

static float clamped(float value, float least, float most)
{
    return value > most ? most : value < least ? least : value;
}

/* The limit of an input. A run that has not driven the machine yet gives it no larger one than the run that has: a brake
 * that acts on from one run to the next is never stronger than it was. */
static float most_of(const struct device *device, unsigned i)
{
    const float most = device->setup.limits[i], before = device->driven_limits[i];
    return device->taken == PACKET_NONE && before < most ? before : most;
}

/* Let these act, each within its limit; what is not finite becomes zero. */
static void act(struct device *device, const float *u)
{
    for (unsigned i = 0; i < device->machine->n_inputs; i++) {
        const float most = most_of(device, i);
        device->u[i] = clamped(isfinite(u[i]) ? u[i] : 0.0f, -most, most);
    }
    device->machine->write(device->machine->self, device->u);
}

/* The safe action: what the host sent when the run began, a feedback of the state; of a machine that knows none its
 * own brake, where it has one. */
static void act_safely(struct device *device)
{
    const unsigned n = device->machine->n_states;
    float u[PACKET_INPUTS] = {0};
    device->law = 0;
    if (!device->machine->read && device->machine->brake) {
        device->machine->brake(device->machine->self, u);
        act(device, u);
        return;
    }
    for (unsigned i = 0; i < device->machine->n_inputs; i++) {
        const float *row = device->setup.safe + i * (n + 1);
        u[i] = row[n];
        for (unsigned j = 0; j < n; j++)
            u[i] += row[j] * device->x[j];
    }
    act(device, u);
}

static void act_zero(struct device *device)
{
    const float zero[PACKET_INPUTS] = {0};
    device->law = 0;
    act(device, zero);
}

/* This machine has no part in the run any more, for this reason. */
static void fail(struct device *device, uint32_t code, uint64_t detail)
{
    device->running = device->braking = device->safe = 0;
    device->fault = code;
    device->fault_detail = detail;
    act_zero(device);
    send_fault(device, device->run, device->k, code, detail);
}

/* Read the state, once a step, so that what acts answers the state that is sent; whether it is good. The run ends where
 * it is not. A machine that knows none reads when it sends. */
static int measure(struct device *device)
{
    if (!device->machine->read || device->measured == device->k)
        return 1;
    uint32_t code = device->machine->read(device->machine->self, device->x);
    for (unsigned i = 0; !code && i < device->machine->n_states; i++)
        if (!isfinite(device->x[i]))
            code = FAULT_STATE;
    if (code)
        fail(device, code, 0);
    else
        device->measured = device->k;
    return code == 0;
}

/* the machine's own law */

/* Let the host's inputs act or, where the own law has decided, what it asks for as far as that is near them. */
static void act_as_decided(struct device *device)
{
    float u[PACKET_INPUTS];
    device->clipped = device->law && device->decided < 0;
    for (unsigned i = 0; i < device->machine->n_inputs; i++) {
        const float most = device->setup.limits[i];
        u[i] = clamped(device->asked.inputs[i], -most, most);
        if (device->law && device->decided > 0) {
            const float own = clamped(device->own[i], -most, most), near = device->setup.tolerance[i];
            u[i] = clamped(own, u[i] - near, u[i] + near);
            device->clipped |= u[i] < own || u[i] > own;
        }
    }
    act(device, u);
}

/* The goal of the present step: that of the host, moved on by its derivatives. */
static void goal_now(const struct device *device, double passed, double *y)
{
    const struct machine *machine = device->machine;
    for (unsigned i = 0; i < machine->n_goal; i++) {
        double term = 1.0;
        y[i] = (double)device->asked.goal[i];
        for (unsigned j = 1; j <= machine->goal_orders[i] && i + j < machine->n_goal; j++) {
            term *= passed / (double)j;
            y[i] += term * (double)device->asked.goal[i + j];
        }
    }
}

/* At a control instant let the own law answer the newest state; 0 where the run ends, for the state is not good. */
static int control(struct device *device)
{
    const struct machine *machine = device->machine;
    const double step = (double)device->setup.step_ns * 1e-9;
    const uint64_t period = (uint64_t)(device->setup.period_ns / device->setup.step_ns);
    double y[PACKET_GOAL];
    const uint64_t instant = device->k / (period ? period : 1); /* its own step may be left out after a stall */
    if (!device->law || (device->decided && instant == device->instant))
        return 1;
    if (!measure(device))
        return 0;
    device->instant = instant;
    const double passed = ((double)device->k - (double)device->asked.goal_at) * step;
    goal_now(device, passed, y);
    int good = machine->law(machine->self, (double)device->asked.goal_step * step + passed, device->x, y, device->own) == 0;
    for (unsigned i = 0; i < machine->n_inputs; i++)
        good = good && isfinite(device->own[i]);
    device->decided = good ? 1 : -1;
    act_as_decided(device);
    return 1;
}

/* The host drives the machine in this run: from now on it brakes wherever the host falls silent. */
static void drive(struct device *device)
{
    device->driven = 1;
    memcpy(device->driven_limits, device->setup.limits, sizeof device->driven_limits);
}

/* Take good inputs of the host. What the own law decided before acts on, near them. */
static void take_inputs(struct device *device, const struct applied *applied)
{
    if (!applied->law || !device->law)
        device->decided = 0;
    drive(device);
    device->asked = *applied;
    device->law = applied->law;
    act_as_decided(device);
}

/* Take the sensors' new readings, each of this run; of one step the same once more. Whether they are good. */
static int sense(struct device *device)
{
    const struct machine *machine = device->machine;
    struct reading *readings = device->readings;
    uint32_t code = 0;
    if (device->sensed == device->k)
        return 1;
    unsigned count = machine->sense(machine->self, readings, &code), kept = 0;
    if (count > PACKET_READINGS)
        code = FAULT_SENSOR;
    for (unsigned i = 0; !code && i < count; i++) {
        if (readings[i].sensor >= machine->n_sensors || !isfinite(readings[i].value))
            code = FAULT_SENSOR;
        else if (readings[i].ago <= device->k - device->first)
            readings[kept++] = readings[i];
    }
    if (code)
        fail(device, code, 0);
    device->n_readings = kept;
    device->sensed = device->k;
    return code == 0;
}

/* Note when a packet is sent, often enough to tell later how old an answer to it is. */
static void note_sent(struct device *device)
{
    const struct sent *newest = &device->sent[device->n_sent % DEVICE_SENT];
    if (!device->n_sent || device->now_ns - newest->ns >= device->timeout_ns / (DEVICE_SENT / 2))
        device->sent[++device->n_sent % DEVICE_SENT] = (struct sent){device->now_ns, device->seq};
}

/* Whether it was sent less than the timeout ago; what answers an older packet was long under way. */
static int is_recent(const struct device *device, uint32_t seq)
{
    for (unsigned i = 0; i < DEVICE_SENT && i < device->n_sent; i++) {
        const struct sent *sent = &device->sent[(device->n_sent - i) % DEVICE_SENT];
        if (sent->seq <= seq)
            return seq < device->seq && device->now_ns - sent->ns < device->timeout_ns;
    }
    return 0;
}

/* Send the state that was read last, or what the sensors have read. */
static void publish(struct device *device)
{
    uint8_t bytes[PACKET_SIZE];
    const struct machine *machine = device->machine;
    if (!machine->read && !sense(device))
        return;
    if (device->seq >= PACKET_NONE - 1 || device->k > PACKET_LAST_STEP) {
        fail(device, FAULT_COUNTER, 0);
        return;
    }
    note_sent(device);
    struct packet head = header(device, device->run, device->k);
    head.flags = device->safe ? PACKET_SAFE : 0;
    if (device->law && device->decided)
        head.flags |= (uint16_t)((device->decided > 0 ? PACKET_LAW : 0) | (device->clipped ? PACKET_CLIPPED : 0));
    device->send(device->to, bytes,
                 machine->read ? packet_write_state(&head, device->refused, device->x, machine->n_states, device->u,
                                                    machine->n_inputs, bytes)
                               : packet_write_readings(&head, device->refused, device->u, machine->n_inputs,
                                                       device->readings, device->n_readings, bytes));
}

/* handshake */

/* Why this machine cannot take part in such a run, or FAULT_NONE. */
static uint32_t misfit(const struct device *device, const struct setup *setup, int lockstep)
{
    const struct machine *machine = device->machine;
    if (setup->schema != machine->schema || setup->n_states != machine->n_states || setup->n_inputs != machine->n_inputs)
        return FAULT_SCHEMA;
    if (setup->step_ns != machine->step_ns || setup->step_ns <= 0 || setup->period_ns < 0)
        return FAULT_STEP;
    if (!(setup->speed >= SLOWEST && setup->speed <= FASTEST) || (!lockstep && setup->speed != 1.0f && !machine->any_speed))
        return FAULT_SPEED;
    if (setup->timeout_ns <= 0)
        return FAULT_TIMEOUT;
    if (lockstep && !machine->simulated)
        return FAULT_MODE;
    for (unsigned i = 0; i < machine->n_inputs; i++)
        if (setup->limits[i] < 0.0f || (setup->law && setup->tolerance[i] < 0.0f))
            return FAULT_LIMITS;
    if (setup->law && (!machine->read || !machine->law || setup->law_schema != machine->law_schema || setup->period_ns <= 0))
        return FAULT_LAW;
    return FAULT_NONE;
}

static uint64_t detail_of(const struct device *device, uint32_t code)
{
    if (code == FAULT_SCHEMA)
        return device->machine->schema;
    if (code == FAULT_LAW)
        return device->machine->law ? device->machine->law_schema : 0;
    return code == FAULT_STEP ? (uint64_t)device->machine->step_ns : 0;
}

/* How many steps lie between two states: as many as the host asks for, or by the fastest rate that is of use. */
static uint64_t spacing(const struct packet *packet, const struct setup *setup, double step_wall_ns)
{
    if (packet->reply != PACKET_NONE && packet->reply > 0)
        return packet->reply;
    const double steps = (double)FASTEST_NS / step_wall_ns;
    uint64_t every = steps < 1.0 ? 1 : (uint64_t)(steps + 0.5);
    const uint64_t period = (uint64_t)(setup->period_ns / setup->step_ns);
    if (setup->period_ns > 0 && every > (period ? period : 1))
        every = period ? period : 1;
    return every;
}

/* Begin a run with zero input or, where the safe action acts, under it: a host that comes does not release the brake
 * before its first input. Nor does a setup that is refused. */
static void begin(struct device *device, int64_t now, const struct packet *packet, const struct setup *setup)
{
    const struct machine *machine = device->machine;
    const int lockstep = (packet->flags & PACKET_LOCKSTEP) != 0;
    const int put = machine->simulated && packet->step == 0; /* at the setup's start: nothing to brake is left */
    const int silent = device->running && device->driven && !device->lockstep && !device_has_host(device, now);
    const int brakes = device->safe || device->braking || silent;
    const uint32_t code = misfit(device, setup, lockstep);
    device->run = packet->run;
    device->host = packet->source;
    device->setup_seq = packet->seq;
    device->k = device->first = packet->step;
    device->measured = device->sensed = UINT64_MAX;
    device->taken = PACKET_NONE;
    device->seq = device->n_sent = 0;
    device->begin_ns = device->fresh_ns = now;
    device->running = device->safe = 0;
    device->braking = brakes;
    device->fault = code;
    if (code) {
        if (!brakes)
            act_zero(device);
        device->law = 0;
        device->fault_detail = detail_of(device, code);
        send_fault(device, device->run, device->k, code, device->fault_detail);
        return;
    }
    device->setup = *setup;
    for (unsigned i = 0; i < machine->n_inputs; i++)
        if (setup->limits[i] > machine->limits[i])
            device->setup.limits[i] = machine->limits[i];
    device->timeout_ns = machine->longest_timeout_ns < setup->timeout_ns ? machine->longest_timeout_ns
                                                                         : setup->timeout_ns;
    device->lockstep = lockstep;
    device->step_wall_ns = (double)setup->step_ns / (double)setup->speed;
    device->every = spacing(packet, setup, device->step_wall_ns);
    device->running = 1;
    device->safe = brakes && !lockstep && !put;
    device->braking = 0;
    if (put)
        device->driven = 0;
    if (!device->safe)
        act_zero(device);
    if (machine->start && packet->step == 0)
        machine->start(machine->self, setup->start);
    if (!measure(device))
        return;
    if (device->safe)
        act_safely(device);
    publish(device);
}

static int take_setup(struct device *device, int64_t now, const struct packet *packet)
{
    struct setup setup;
    if (packet_read_setup(packet, &setup) != PACKET_GOOD)
        return 0;
    if (device_has_host(device, now) && packet->source != device->host)
        return 0; /* the host that began a run keeps it, to its end or its silence */
    if (packet->source == device->host && packet->run != device->run && packet->seq <= device->setup_seq)
        return 0; /* it was under way for long: that run is over */
    if (packet->run != device->run || packet->source != device->host)
        begin(device, now, packet, &setup);
    else if (device->running)
        publish(device); /* the first answer may have been lost */
    else if (device->fault)
        send_fault(device, device->run, device->k, device->fault, device->fault_detail);
    return 1;
}

/* a run */

static void take_step(struct device *device)
{
    if (device->machine->advance)
        device->machine->advance(device->machine->self, (double)device->k * (double)device->setup.step_ns * 1e-9);
    device->k++;
}

/* In lockstep: to `until` from here; where that has been done, only the state once more. */
static int go(struct device *device, const struct packet *packet, const struct applied *applied)
{
    const uint64_t k = device->k, until = applied->until;
    if (packet->step == k && until > k && until - k <= LEAP && packet->seq != device->taken) {
        take_inputs(device, applied);
        while (device->k < until) {
            if (!control(device))
                return 1;
            take_step(device);
        }
        device->taken = packet->seq;
        if (!measure(device))
            return 1;
    } else if (until != k) {
        return 0;
    }
    publish(device);
    return 1;
}

static int take_applied(struct device *device, int64_t now, const struct packet *packet)
{
    struct applied applied;
    if (!device->running || packet->run != device->run || packet->source != device->host)
        return 0;
    if ((packet->flags & PACKET_LAW) && !device->setup.law)
        return 0;
    const unsigned n_goal = device->machine->law ? device->machine->n_goal : 0;
    if (packet_read_applied(packet, device->machine->n_inputs, n_goal, &applied) != PACKET_GOOD)
        return 0;
    if (packet->flags & PACKET_FINAL) {
        device->running = 0;
        device->braking = !device->lockstep && device->driven;
        act_zero(device);
        return 1;
    }
    if (device->taken != PACKET_NONE && packet->seq < device->taken)
        return 0;
    if (device->lockstep) {
        device->fresh_ns = now;
        return go(device, packet, &applied);
    }
    if (packet->seq == device->taken)
        return 0;
    if (!(packet->flags & PACKET_BRAKE) && !is_recent(device, packet->reply))
        return 0; /* a host to which no state comes may brake nevertheless */
    device->taken = packet->seq;
    device->fresh_ns = now;
    if (packet->flags & PACKET_BRAKE) {
        device->safe = 1;
        drive(device);
        if (measure(device))
            act_safely(device);
        return 1;
    }
    device->safe = 0;
    take_inputs(device, &applied);
    return 1;
}

int device_receive(struct device *device, int64_t now, const uint8_t *bytes, size_t size)
{
    struct packet packet;
    int taken = 0;
    device_advance_to(device, now);
    switch (packet_decode(bytes, size, &packet)) {
    case PACKET_GOOD:
        if (packet.type == PACKET_SETUP)
            taken = take_setup(device, now, &packet);
        else if (packet.type == PACKET_APPLIED)
            taken = take_applied(device, now, &packet);
        break;
    case PACKET_BAD_VERSION:
        if (!device_has_host(device, now))
            send_fault(device, 1, 0, FAULT_VERSION, packet.version);
        break;
    default:
        break;
    }
    device->refused += !taken;
    return taken;
}

static int64_t time_of(const struct device *device, uint64_t k)
{
    return device->begin_ns + (int64_t)((double)(k - device->first) * device->step_wall_ns + 0.5);
}

int64_t device_due(const struct device *device)
{
    const int passes = device->braking || (device->running && !device->lockstep);
    return passes ? time_of(device, device->k + 1) : INT64_MAX;
}

/* Hardware is where it is: steps that a stall has left out are counted, not made up for by as many reads of sensors. */
static void skip(struct device *device, int64_t now)
{
    if (device->machine->advance || device_due(device) > now)
        return;
    const uint64_t k = device->first + (uint64_t)((double)(now - device->begin_ns) / device->step_wall_ns);
    if (k > device->k + 1)
        device->k = k - 1; /* the last one is taken as ever */
}

void device_advance_to(struct device *device, int64_t now)
{
    const uint64_t before = device->k;
    const int backwards = now < device->now_ns;
    int64_t at;
    device->now_ns = now;
    if (backwards && (device->running || device->braking)) {
        fail(device, FAULT_CLOCK, 0);
        return;
    }
    skip(device, now);
    while ((at = device_due(device)) <= now) {
        take_step(device);
        if (device->running && device->driven && at - device->fresh_ns >= device->timeout_ns)
            device->safe = 1;
        if (device->safe || device->braking) {
            if (!measure(device))
                return;
            act_safely(device);
        } else if (!control(device)) {
            return;
        }
    }
    if (!device->running || device->k == before)
        return;
    const uint64_t passed = (device->k - device->first) / device->every;
    if (passed != (before - device->first) / device->every && measure(device))
        publish(device); /* after a stall the newest state alone */
}
