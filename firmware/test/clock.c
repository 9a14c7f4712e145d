/* A device whose clock jumps: ahead, as after a debugger held it, and back, as a counter of 32 bits does.
 *
 * Prints what is wrong, and exits with 1 then.
 */
#include <math.h>
#include <string.h>

#include "single.h"
#include "written.h"

static uint32_t code;
static unsigned reads, states;

static uint32_t read_state(void *self, float *x)
{
    (void)self;
    reads++;
    x[0] = 0.5f;
    return 0;
}

static void take_packet(void *to, const uint8_t *bytes, size_t size)
{
    struct packet packet;
    (void)to;
    if (packet_decode(bytes, size, &packet) != PACKET_GOOD)
        wrong++;
    answered = packet.seq;
    if (packet.type == PACKET_FAULT)
        code = packet.payload[0];
    else
        states++;
}

static void give(struct device *device, int64_t now, uint8_t type, uint32_t run, const uint8_t *payload, unsigned length)
{
    uint8_t bytes[PACKET_SIZE];
    uint8_t *at = put_head(bytes, type, run, run, 0, 0, length); /* seq grows from run to run */
    memcpy(at, payload, length);
    expect(device_receive(device, now, bytes, seal(bytes, PACKET_HEADER + length)), "a good packet is taken");
}

/* A run of hardware with one state and one input; its safe action is -2 x. An input of 1 acts. */
static void begin(struct device *device, int64_t now, uint32_t run)
{
    uint8_t payload[64];
    uint8_t *at = put_setup(payload, 1.5f, 100 * STEP_NS);
    give(device, now, PACKET_SETUP, run, payload, (unsigned)(at - payload));
    at = put_float(put(payload, 0, 8), 1.0f);
    give(device, now, PACKET_APPLIED, run, payload, (unsigned)(at - payload));
    expect(fabsf(acting - 1.0f) < 1e-6f, "the input acts");
}

int main(void)
{
    const struct machine machine = single_machine(read_state);
    struct device device;
    int64_t now = INT64_C(4294967295) * 1000 - 50 * STEP_NS; /* soon a counter of microseconds begins anew */
    device_init(&device, &machine, 5, take_packet, NULL);
    begin(&device, now, 1);

    now += 50 * STEP_NS;
    device_advance_to(&device, now);
    expect(fabsf(acting - 1.0f) < 1e-6f, "the input still acts before the timeout");
    device_advance_to(&device, 0);
    expect(code == FAULT_CLOCK && fabsf(acting) < 1e-6f, "a clock that begins anew ends the run with zero input");
    begin(&device, 10 * STEP_NS, 2);
    device_advance_to(&device, 150 * STEP_NS);
    expect(fabsf(acting + 1.0f) < 1e-6f, "the next run has its timeout and its safe action");

    reads = states = 0;
    now = INT64_C(3600000) * STEP_NS;
    device_advance_to(&device, now);
    expect(device.k == 3600000 - 10, "an hour's steps are counted");
    expect(reads <= 2 && states == 1, "sensors are read for the present alone, and one state is sent");

    now = INT64_C(50) * 86400 * 1000 * STEP_NS; /* a counter of milliseconds with 32 bits would have begun anew */
    begin(&device, now, 3);
    now += 150 * STEP_NS;
    device_advance_to(&device, now);
    expect(fabsf(acting + 1.0f) < 1e-6f && device.k == 150, "after 50 days all is as on the first");

    begin(&device, now, 4);
    device.k = device.first = PACKET_LAST_STEP - 10;
    device_advance_to(&device, now + 50 * STEP_NS);
    expect(code == FAULT_COUNTER && !device.running, "steps beyond the last one end the run, by a packet that is good");
    begin(&device, now += 60 * STEP_NS, 5);
    device.seq = PACKET_NONE - 3;
    for (int i = 0; i < 5; i++) {
        uint8_t payload[64];
        const unsigned length = (unsigned)(put_setup(payload, 1.5f, 100 * STEP_NS) - payload);
        give(&device, now, PACKET_SETUP, 5, payload, length);
    }
    expect(code == FAULT_COUNTER && !device.running, "so do numbers of packets, however often they are asked for");
    return wrong != 0;
}
