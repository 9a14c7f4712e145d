/* Random and mutated bytes into the decoder and into a device: nothing is accepted that CRC-16 would not let through.
 *
 *     fuzz COUNT [SEED]
 *
 * Prints what was accepted. CRC-16/CCITT has a Hamming distance of 4 at these lengths and finds every burst of up to 16
 * bits: of such mutations none may be accepted; of others one in 65536, to within six standard deviations. Between them
 * good packets come, so that the devices are driven: inputs must act, laws too, and safe actions where time passes.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../device.h"
#include "written.h"

#define STATES 3
#define INPUTS 2
#ifndef GOAL
#define GOAL 4
#endif
#define SENSORS 5
#define SILENT_NS 300000000

static uint64_t seed;

static uint64_t rng(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed >> 16;
}

static size_t below(size_t most) { return (size_t)(rng() % most); }

static void flip(uint8_t *bytes, size_t bit) { bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8)); }

/* the machine */

static float acting[INPUTS];
static const float own_limits[INPUTS] = {2.0f, 0.5f};
static const uint8_t orders[GOAL] = {3, 2, 1, 9};

static void check_inputs(const float *u)
{
    for (unsigned i = 0; i < INPUTS; i++)
        if (!(fabsf(u[i]) <= own_limits[i])) {
            fprintf(stderr, "an input of %g acts, beyond %g\n", (double)u[i], (double)own_limits[i]);
            exit(1);
        }
}

static uint32_t read_state(void *self, float *x)
{
    (void)self;
    for (unsigned i = 0; i < STATES; i++)
        x[i] = (float)rng() / 1e12f - 100.0f;
    return 0;
}

/* Of the machine that sends readings alone: good ones, now and then too many, unknown or not finite. */
static unsigned sense(void *self, struct reading *out, uint32_t *code)
{
    (void)self;
    (void)code;
    const unsigned count = (unsigned)below(PACKET_READINGS + 1);
    for (unsigned i = 0; i < count; i++) {
        out[i].sensor = (uint16_t)below(below(1000) ? SENSORS : SENSORS + 1);
        out[i].ago = (uint16_t)below(50);
        out[i].value = below(1000) ? (float)rng() / 1e10f : NAN;
    }
    return below(1000) ? count : PACKET_READINGS + 1;
}

static void brake(void *self, float *u)
{
    (void)self;
    for (unsigned i = 0; i < INPUTS; i++)
        u[i] = below(10) ? (float)rng() / 1e10f - 5.0f : NAN;
}

static void write_inputs(void *self, const float *u)
{
    (void)self;
    check_inputs(u);
    memcpy(acting, u, sizeof acting);
}

static int answer(void *self, double t, const float *x, const double *y, float *u)
{
    (void)self;
    for (unsigned i = 0; i < INPUTS; i++)
        u[i] = (float)(y[i] - (double)x[i] + t);
    return below(20) == 0;
}

/* What a device has done. */
struct did {
    uint64_t sent, taken, safe, law; /* packets; inputs of good ones; states under the safe action, and its own law */
};

static uint64_t sent_readings;

static void send_nowhere(void *to, const uint8_t *bytes, size_t size)
{
    struct packet packet;
    struct did *did = to;
    did->sent++;
    if (packet_decode(bytes, size, &packet) != PACKET_GOOD) {
        fprintf(stderr, "an invalid packet is sent\n");
        exit(1);
    }
    did->safe += (packet.flags & PACKET_SAFE) != 0;
    did->law += (packet.flags & PACKET_LAW) != 0;
    if (packet.type == PACKET_READING) {
        struct reading found[PACKET_READINGS];
        unsigned count;
        if (packet_read_readings(&packet, INPUTS, SENSORS, found, &count) != PACKET_GOOD) {
            fprintf(stderr, "invalid readings are sent\n");
            exit(1);
        }
        sent_readings++;
    }
}

/* good packets */

/* Of the run that goes on or of the next one: that always where none goes on. Mostly numbered on. */
static size_t good_setup(uint8_t *bytes, const struct device *device)
{
    const uint32_t run = device->run + (!device->running || below(20) == 0);
    const uint32_t seq = below(8) ? device->setup_seq + 1 : (uint32_t)rng();
    const unsigned numbers = INPUTS + INPUTS * (STATES + 1) + STATES;
    const unsigned law = below(3) ? 1 + INPUTS : 0;
    const unsigned flags = (below(2) ? PACKET_LOCKSTEP : 0u) | (law ? PACKET_LAW : 0u);
    const uint64_t step = below(4) ? device->k : 0;
    uint8_t *at = put_head(bytes, PACKET_SETUP, run, seq, step, flags, PACKET_SETUP_FIXED + 4 * (numbers + law));
    at = put(put(put(at, 7, 4), STATES, 2), INPUTS, 2);
    at = put_float(put(put(put(at, 1000000, 8), 10000000, 8), 100000000, 8), 1.0f);
    for (unsigned i = 0; i < numbers; i++)
        at = put_float(at, (float)below(1000) / 100.0f);
    if (law)
        at = put(at, 8, 4);
    for (unsigned i = 0; law && i < INPUTS; i++)
        at = put_float(at, (float)below(100) / 100.0f);
    return seal(bytes, (size_t)(at - bytes));
}

static size_t good_applied(uint8_t *bytes, const struct device *device)
{
    const unsigned law = device->setup.law && below(2);
    const unsigned flags = (below(50) ? 0u : PACKET_FINAL) | (law ? PACKET_LAW : 0u);
    const uint32_t seq = below(8) ? device->taken + 1 : (uint32_t)rng(); /* of 2^32 - 1, none yet: 0 */
    answered = device->seq - (below(8) ? 1u : (uint32_t)below(200));
    uint8_t *at = put_head(bytes, PACKET_APPLIED, device->run ? device->run : 1, seq, device->k, flags,
                           8 + 4 * INPUTS + (law ? 16 + 4 * GOAL : 0));
    at = put(at, device->k + below(5), 8);
    for (unsigned i = 0; i < INPUTS; i++)
        at = put_float(at, (float)rng() / 1e10f - 5.0f);
    if (law)
        at = put(put(at, device->k, 8), below(1000), 8);
    for (unsigned i = 0; law && i < GOAL; i++)
        at = put_float(at, (float)rng() / 1e10f - 5.0f);
    return seal(bytes, (size_t)(at - bytes));
}

static size_t good_readings(uint8_t *bytes)
{
    const unsigned count = (unsigned)below(PACKET_READINGS + 1);
    uint8_t *at = put_head(bytes, PACKET_READING, 4242, (uint32_t)below(1000), 100, (unsigned)below(2),
                           4 + 4 * INPUTS + 8 * count);
    at = put(at, below(1000), 4);
    for (unsigned i = 0; i < INPUTS; i++)
        at = put_float(at, (float)rng() / 1e10f);
    for (unsigned i = 0; i < count; i++)
        at = put_float(put(put(at, below(SENSORS), 2), below(100), 2), (float)rng() / 1e10f);
    return seal(bytes, (size_t)(at - bytes));
}

static size_t good_packet(uint8_t *bytes, const struct device *device)
{
    return below(3) ? below(8) ? good_applied(bytes, device) : good_setup(bytes, device) : good_readings(bytes);
}

/* A good packet of its host: a setup where no run goes on, else inputs, now and then a setup all the same. */
static void drive(struct device *device, struct did *did, int64_t now)
{
    uint8_t bytes[PACKET_FRAME];
    const int applies = device->running && below(10);
    const size_t size = applies ? good_applied(bytes, device) : good_setup(bytes, device);
    const int taken = device_receive(device, now, bytes, size);
    did->taken += applies && taken;
}

/* What was decoded must be as it says. */
static void check_readings(const struct packet *packet)
{
    struct reading found[PACKET_READINGS];
    unsigned count = 0;
    if (packet_read_readings(packet, INPUTS, SENSORS, found, &count) != PACKET_GOOD)
        return;
    for (unsigned i = 0; i < count; i++)
        if (found[i].sensor >= SENSORS || found[i].ago > packet->step || !isfinite(found[i].value)) {
            fprintf(stderr, "an invalid reading is accepted\n");
            exit(1);
        }
}

/* mutations */

enum kind { FEW_BITS, BURST, SPOILED, RESIZED, SEALED, RANDOM, KINDS };

static size_t mutated(enum kind kind, uint8_t *bytes, size_t size)
{
    size_t begin;
    switch (kind) {
    case FEW_BITS:
        for (size_t i = 1 + below(3); i-- > 0;)
            flip(bytes, below(8 * size));
        return size;
    case BURST:
        begin = below(8 * size - 16);
        for (size_t i = 0; i < 16; i++)
            if (below(2))
                flip(bytes, begin + i);
        return size;
    case SPOILED:
        begin = below(size);
        for (size_t i = 0; i < 4 + below(30); i++)
            bytes[(begin + i) % size] = (uint8_t)rng();
        return size;
    case RESIZED:
        return below(2) ? below(size) : size + below(PACKET_FRAME - size);
    case SEALED: /* with a good CRC: what the fields say must be judged */
        for (size_t i = 1 + below(4); i-- > 0;)
            bytes[2 + below(size - 4)] = below(3) ? (uint8_t)rng() : (uint8_t)(below(2) ? 0 : 255);
        return seal(bytes, size - 2);
    default:
        size = below(PACKET_FRAME);
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)rng();
        return size;
    }
}

/* Whether a device was driven so little that this says nothing about its runs. */
static int idle(const char *which, const struct did *did, uint64_t strings)
{
    const int is = did->taken < strings / 20 || did->safe < strings / 1000;
    printf("%s: %" PRIu64 " inputs taken, %" PRIu64 " states under the safe action, %" PRIu64 " under its own law%s\n",
           which, did->taken, did->safe, did->law, is ? ": too few" : "");
    return is;
}

int main(int count, char **words)
{
    static const char *const names[KINDS] = {"few bits", "burst", "spoiled", "resized", "sealed", "random"};
    const uint64_t strings = count > 1 ? strtoull(words[1], NULL, 10) : 100000;
    uint64_t tried[KINDS] = {0}, let_through[KINDS] = {0}, framed = 0;
    struct machine machine = {0}, sensing;
    struct device device, blind; /* of a machine that knows its state, and of one that sends readings alone */
    struct did did = {0}, did_blind = {0};
    seed = count > 2 ? strtoull(words[2], NULL, 10) | 1 : 18181818;
    machine.schema = 7;
    machine.n_states = STATES;
    machine.n_inputs = INPUTS;
    machine.step_ns = 1000000;
    machine.longest_timeout_ns = 500000000;
    machine.limits = own_limits;
    machine.simulated = machine.any_speed = 1;
    machine.read = read_state;
    machine.write = write_inputs;
    machine.law = answer;
    machine.law_schema = 8;
    machine.n_goal = GOAL;
    machine.goal_orders = orders;
    sensing = machine;
    sensing.read = NULL;
    sensing.law = NULL;
    sensing.sense = sense;
    sensing.brake = brake;
    sensing.n_sensors = SENSORS;
    device_init(&device, &machine, 5, send_nowhere, &did);
    device_init(&blind, &sensing, 6, send_nowhere, &did_blind);
    int64_t now = 0;
    for (uint64_t i = 0; i < strings; i++) {
        uint8_t *exact, original[PACKET_FRAME] = {0}, bytes[PACKET_FRAME + 8], back[PACKET_FRAME];
        struct packet packet;
        const enum kind kind = (enum kind)(i % KINDS);
        size_t size = good_packet(original, &device);
        const size_t good_size = size;
        memcpy(bytes, original, sizeof original);
        size = mutated(kind, bytes, size);
        exact = malloc(size ? size : 1); /* so that a read beyond the end is found */
        if (!exact)
            return 2;
        memcpy(exact, bytes, size);
        const int same = size == good_size && memcmp(exact, original, size) == 0;
        tried[kind] += !same;
        if (packet_decode(exact, size, &packet) == PACKET_GOOD) {
            let_through[kind] += !same;
            check_readings(&packet);
        }
        now += (int64_t)(below(200) ? below(100000) : below(SILENT_NS)); /* longer than a timeout now and then */
        device_receive(&device, now, exact, size);
        device_receive(&blind, now, exact, size);
        framed += cobs_decode(exact, size, back, sizeof back) > 0;
        free(exact);
        if (below(6) == 0) { /* a good one now and then, so that runs go on */
            drive(&device, &did, now);
            drive(&blind, &did_blind, now);
        }
    }
    int wrong = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        const double chance = (double)tried[kind] / 65536.0, most = chance + 6.0 * sqrt(chance + 1.0);
        const int proven = kind == FEW_BITS || kind == BURST;
        const int bad = kind != SEALED && (double)let_through[kind] > (proven ? 0.0 : most);
        printf("%-9s %8" PRIu64 " tried, %6" PRIu64 " decoded%s\n", names[kind], tried[kind], let_through[kind],
               bad ? ": more than CRC-16 lets through" : "");
        wrong += bad;
    }
    printf("%" PRIu64 " packets sent, %" PRIu64 " of readings, %" PRIu64 " frames, %" PRIu32 " refused\n",
           did.sent + did_blind.sent, sent_readings, framed, device.refused);
    wrong += idle("knowing its state", &did, strings) + idle("sending readings", &did_blind, strings);
    return wrong || did.law < strings / 100 || sent_readings == 0;
}
