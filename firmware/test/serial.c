/* Between interrupt and main loop: whole packets come out, full rings and long frames lose only themselves, the newest
 * packet and a fault leave whole. */
#include "../boards/common/clock.h"
#include "../boards/common/serial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fails;

static void expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "serial: %s\n", what);
        fails++;
    }
}

static void come(struct serial *serial, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        serial_keep(serial, bytes[i]);
}

static size_t state_of(uint32_t seq, uint8_t *bytes)
{
    const struct packet head = {.run = 1, .source = 2, .seq = seq};
    const float x[] = {1.0f}, u[] = {0.0f};
    return packet_write_state(&head, 0, x, 1, u, 1, bytes);
}

static void receives(void)
{
    static struct serial serial;
    static uint8_t packet[PACKET_SIZE], frame[PACKET_FRAME], bytes[PACKET_SIZE];
    const size_t size = state_of(7, bytes), n_frame = cobs_encode(bytes, size, frame);
    expect(!serial_has_begun(&serial) && !serial_take(&serial, packet), "nothing has come");
    come(&serial, frame, n_frame - 1);
    expect(serial_has_begun(&serial) && !serial_take(&serial, packet), "half a frame is no packet");
    come(&serial, frame + n_frame - 1, 1);
    come(&serial, frame, n_frame);
    for (int i = 0; i < 2; i++)
        expect(serial_take(&serial, packet) == size && !memcmp(packet, bytes, size), "a packet comes out as it was");
    for (unsigned i = 0; i < 2 * SERIAL_RING; i++)
        serial_keep(&serial, 1);
    expect(serial.came - serial.taken == SERIAL_RING, "what finds the ring full is lost");
    for (unsigned i = 0; i < PACKET_FRAME; i++) {
        (void)serial_take(&serial, packet);
        serial_keep(&serial, 1);
    }
    serial_keep(&serial, 0);
    expect(!serial_take(&serial, packet), "a frame that is too long is no packet");
    serial.came = serial.taken = UINT32_MAX - 3u; /* the counts begin anew in the middle of the next frame */
    come(&serial, frame, n_frame);
    expect(serial_take(&serial, packet) == size && !memcmp(packet, bytes, size), "the next packet comes out");
}

/* The frame that leaves, as the interrupt takes it; its packet's type, or 0. */
static int leaves(struct serial *serial, struct packet *packet)
{
    static uint8_t frame[PACKET_FRAME], bytes[PACKET_SIZE];
    size_t size = 0;
    for (int byte = serial_next(serial); byte >= 0; byte = serial_next(serial))
        frame[size++] = (uint8_t)byte;
    return packet_decode(bytes, cobs_decode(frame, size - 1, bytes, sizeof bytes), packet) == PACKET_GOOD ? packet->type : 0;
}

static void sends(void)
{
    static struct serial serial;
    uint8_t bytes[PACKET_SIZE];
    struct packet packet;
    const struct packet head = {.run = 1, .source = 2, .seq = 9};
    expect(!serial_load(&serial), "nothing waits");
    line_put(&serial.line, bytes, state_of(0, bytes));
    expect(serial_load(&serial) && serial_next(&serial) >= 0, "the first byte leaves");
    line_put(&serial.line, bytes, state_of(1, bytes));
    line_put(&serial.line, bytes, packet_write_fault(&head, FAULT_SENSOR, 0, bytes));
    line_put(&serial.line, bytes, state_of(2, bytes));
    expect(!serial_load(&serial), "a frame that is being sent stays as it is");
    while (serial_next(&serial) >= 0) { }
    expect(serial_load(&serial) && leaves(&serial, &packet) == PACKET_FAULT, "then a fault leaves");
    expect(serial_load(&serial) && leaves(&serial, &packet) == PACKET_STATE && packet.seq == 2, "then the newest state");
    expect(!serial_load(&serial), "nothing else waits");
}

/* Packets of each size up to the largest come out as they were, with zero bytes and without, and leave so. */
static void every_size(void)
{
    static struct serial serial;
    static uint8_t bytes[PACKET_SIZE], packet[PACKET_SIZE], frame[PACKET_FRAME], back[PACKET_FRAME];
    for (size_t size = 1; size <= PACKET_SIZE; size++)
        for (size_t zeros = 0; zeros < 2; zeros++) {
            size_t found = 0, left = 0;
            for (size_t i = 0; i < size; i++)
                bytes[i] = (uint8_t)(zeros ? rand() % 2 : 1 + rand() % 255);
            const size_t n = cobs_encode(bytes, size, frame);
            for (size_t i = 0; i < n && !found; i++) {
                serial_keep(&serial, frame[i]);
                found = serial_take(&serial, packet);
            }
            expect(found == size && !memcmp(packet, bytes, size), "a packet of some size does not come out");
            expect(!cobs_decode(frame, n - 1, back, size - 1), "a packet comes out where it has no room");
            line_put(&serial.line, bytes, size);
            expect(serial_load(&serial), "a packet of some size does not leave");
            for (int byte = serial_next(&serial); byte >= 0; byte = serial_next(&serial))
                back[left++] = (uint8_t)byte;
            expect(left == n && !memcmp(back, frame, n), "a packet leaves as another one");
        }
}

static void counts(void)
{
    struct clock clock = {0};
    expect(clock_ns(&clock, UINT32_MAX - 83u, 84) == INT64_C(51130562047), "84 ticks are a microsecond");
    expect(clock_ns(&clock, 0, 84) == INT64_C(51130563047), "a counter that begins anew counts on");
    expect(clock_ns(&clock, 0, 84) == INT64_C(51130563047), "and stands while it stands");
}

int main(void)
{
    receives();
    sends();
    every_size();
    counts();
    printf("serial: %s\n", fails ? "failed" : "ok");
    return fails != 0;
}
