/* A device from run to run: once a host has driven it, its safe action acts wherever no input comes, until one does.
 *
 * Prints what is wrong, and exits with 1 then.
 */
#include <math.h>
#include <string.h>

#include "single.h"
#include "written.h"

#define MS INT64_C(1000000) /* a step */
#define TIMEOUT_MS 100

static uint32_t code, sensor_fails;
static unsigned flagged, unflagged, reads;
static uint32_t seq;
static int64_t now;

/* Another state each time, so that what acts and what is sent are seen to be of the same one. */
static uint32_t read_state(void *self, float *x)
{
    (void)self;
    x[0] = 0.5f + 0.001f * (float)(reads++ % 2);
    return sensor_fails;
}

static int near(float value, float expected) { return fabsf(value - expected) < 0.01f; }

static float number_at(const uint8_t *bytes)
{
    const uint32_t bits = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static void take_packet(void *to, const uint8_t *bytes, size_t size)
{
    struct packet packet;
    (void)to;
    expect(packet_decode(bytes, size, &packet) == PACKET_GOOD, "what it sends is a packet");
    answered = packet.seq;
    if (packet.type == PACKET_FAULT) {
        code = packet.payload[0];
    } else if (packet.flags & PACKET_SAFE) {
        const float x = number_at(packet.payload + 4), u = number_at(packet.payload + 8);
        flagged++;
        expect(u > -0.9f || fabsf(u + 2.0f * x) < 1e-6f, "the safe action answers the state in the same packet");
    } else {
        unflagged++;
    }
}

/* Ask for a run with these limits and this timeout; its safe action is -2 x. */
static void ask(struct device *device, uint32_t run, uint64_t step, float limit, int64_t timeout)
{
    uint8_t bytes[PACKET_SIZE];
    uint8_t *payload = put_head(bytes, PACKET_SETUP, run, ++seq, step, 0, PACKET_SETUP_FIXED + 4 * 4);
    uint8_t *at = put_setup(payload, limit, timeout);
    flagged = unflagged = 0;
    expect(device_receive(device, now, bytes, seal(bytes, (size_t)(at - bytes))), "a setup is taken");
}

static void begin(struct device *device, uint32_t run, float limit) { ask(device, run, 100, limit, TIMEOUT_MS * MS); }

static int give(struct device *device, uint32_t run, float u, unsigned flags)
{
    uint8_t bytes[PACKET_SIZE];
    uint8_t *at = put_float(put(put_head(bytes, PACKET_APPLIED, run, ++seq, 0, flags, 12), 0, 8), u);
    return device_receive(device, now, bytes, seal(bytes, (size_t)(at - bytes)));
}

static void apply(struct device *device, uint32_t run, float u, unsigned flags)
{
    expect(give(device, run, u, flags), "an input is taken");
}

static void drive(struct device *device, uint32_t run)
{
    apply(device, run, 0.2f, 0);
    expect(near(acting, 0.2f), "an input acts at once");
}

static void wait(struct device *device, int64_t ms)
{
    for (const int64_t end = now + ms * MS; now < end; now += MS)
        device_advance_to(device, now + MS);
}

int main(void)
{
    struct machine machine = single_machine(read_state);
    struct device device;
    device_init(&device, &machine, 5, take_packet, NULL);

    begin(&device, 1, 1.5f);
    wait(&device, 3 * TIMEOUT_MS);
    expect(near(acting, 0.0f) && !flagged, "a machine that nobody has driven stays at zero");
    apply(&device, 1, 0.0f, PACKET_FINAL);
    wait(&device, 50);
    expect(near(acting, 0.0f), "it does after the end of such a run, too");

    begin(&device, 2, 1.5f);
    drive(&device, 2);
    begin(&device, 3, 1.5f);
    expect(near(acting, 0.0f) && !flagged, "while inputs come, the next run begins with zero");
    wait(&device, TIMEOUT_MS - 2);
    expect(near(acting, 0.0f) && !flagged, "zero stays until the timeout");
    wait(&device, 4);
    expect(near(acting, -1.0f) && flagged, "then the safe action acts, though this run had no input yet");

    begin(&device, 4, 1.5f);
    expect(near(acting, -1.0f) && flagged == 1 && !unflagged, "a setup does not release the safe action, and says so");
    wait(&device, 3 * TIMEOUT_MS);
    expect(near(acting, -1.0f) && !unflagged, "it acts on until an input comes");
    drive(&device, 4);
    flagged = 0;
    wait(&device, 10);
    expect(near(acting, 0.2f) && !flagged, "the first input of the run ends it");

    apply(&device, 4, 0.0f, PACKET_FINAL);
    wait(&device, 10);
    begin(&device, 5, 0.25f);
    expect(near(acting, -0.25f) && flagged == 1, "nor after the end of a run, within the next one's limit");
    drive(&device, 5);
    wait(&device, TIMEOUT_MS + 10);
    begin(&device, 6, 1.5f);
    expect(near(acting, -0.25f), "before an input the brake is never stronger than it was");
    begin(&device, 7, 0.0f);
    wait(&device, TIMEOUT_MS + 10);
    expect(near(acting, 0.0f), "nothing acts in a run that only observes");
    begin(&device, 8, 1.5f);
    expect(near(acting, -0.25f), "after it the brake acts again");
    drive(&device, 8);
    wait(&device, TIMEOUT_MS + 10);
    expect(near(acting, -1.0f), "an input makes the run's own limit hold");

    code = 0;
    ask(&device, 9, 100, 1.5f, 0);
    expect(code == FAULT_TIMEOUT && !flagged && !unflagged, "a setup without a timeout is refused");
    wait(&device, 50);
    expect(near(acting, -1.0f) && !flagged && !unflagged, "a refused setup does not release the safe action");
    begin(&device, 10, 1.5f);
    expect(near(acting, -1.0f) && flagged == 1, "nor does the next good one");

    sensor_fails = FAULT_SENSOR;
    wait(&device, 2);
    expect(code == FAULT_SENSOR && near(acting, 0.0f), "without a state zero acts");
    sensor_fails = 0;
    begin(&device, 11, 1.5f);
    expect(near(acting, 0.0f) && !flagged, "with a state again the run begins with zero");
    wait(&device, TIMEOUT_MS + 10);
    expect(near(acting, -1.0f) && flagged, "and has its timeout");

    machine.simulated = 1;
    ask(&device, 12, 0, 1.5f, TIMEOUT_MS * MS);
    wait(&device, 3 * TIMEOUT_MS);
    expect(near(acting, 0.0f) && !flagged, "a simulation that is put to its start has not been driven");

    begin(&device, 12, 1.5f);
    drive(&device, 12);
    const uint32_t old = answered;
    for (int i = 0; i < 3; i++) {
        wait(&device, TIMEOUT_MS / 2);
        drive(&device, 12);
    }
    for (int i = 0; i < 2; i++) { /* a state of long ago, and one that has not been sent */
        answered = i ? answered + 1000 : old;
        expect(!give(&device, 12, 0.4f, 0) && near(acting, 0.2f), "an input is taken that answers no recent state");
    }
    expect(give(&device, 12, 0.4f, PACKET_BRAKE) && device.safe, "a host to which no state comes brakes");
    wait(&device, TIMEOUT_MS - 10);
    answered = device.seq - 85;
    expect(give(&device, 12, 0.4f, 0) && near(acting, 0.4f), "an input that answers a state of 85 ms ago acts");
    return wrong != 0;
}
