/* Frames of a CAN bus: packets come out whole or not at all, whatever is lost, doubled, reordered or changed. */
#include "../can.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACKETS 20000u

static int fails;

static void expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "can: %s\n", what);
        fails++;
    }
}

/* A random state, or a fault. */
static size_t random_packet(uint32_t seq, uint8_t *bytes)
{
    const struct packet head = {.run = 1, .source = 2, .seq = seq};
    float x[PACKET_STATES], u[PACKET_INPUTS];
    for (unsigned i = 0; i < PACKET_STATES; i++)
        x[i] = (float)rand();
    for (unsigned i = 0; i < PACKET_INPUTS; i++)
        u[i] = (float)rand();
    if (rand() % 8 == 0)
        return packet_write_fault(&head, FAULT_SENSOR, seq, bytes);
    return packet_write_state(&head, 0, x, 1u + (unsigned)rand() % PACKET_STATES, u, 1u + (unsigned)rand() % PACKET_INPUTS,
                              bytes);
}

/* Send PACKETS over a bus that does `harm` to one frame of so many (0: none); how many come out. */
static unsigned arrive(unsigned harm, struct can_in *in)
{
    static struct line line;
    static struct can_out out;
    uint8_t bytes[PACKET_SIZE], frame[CAN_FRAME], held[CAN_FRAME];
    size_t size, n_held = 0;
    unsigned came = 0;
    for (uint32_t seq = 0; seq < PACKETS; seq++) {
        const size_t whole = random_packet(seq, bytes);
        line_put(&line, bytes, whole);
        while ((size = can_next(&out, &line, frame)) > 0) {
            const int what = harm && (unsigned)rand() % harm == 0 ? 1 + rand() % 4 : 0;
            if (what == 1)
                continue; /* it is lost */
            if (what == 2)
                frame[(size_t)rand() % size] ^= (uint8_t)(1 + rand() % 255);
            if (what == 3 && !n_held) { /* the next one overtakes it */
                memcpy(held, frame, size);
                n_held = size;
                continue;
            }
            for (int i = 0; i < 1 + (what == 4); i++) {
                const size_t found = can_take(in, frame, size);
                struct packet packet;
                if (found && packet_decode(in->packet, found, &packet) == PACKET_GOOD && packet.seq == seq) {
                    expect(found == whole && !memcmp(in->packet, bytes, whole), "a packet has other bytes");
                    came++;
                }
            }
            if (n_held) {
                can_take(in, held, n_held);
                n_held = 0;
            }
        }
    }
    return came;
}

int main(void)
{
    static struct can_in in, harmed;
    uint8_t bytes[PACKET_SIZE], frame[CAN_FRAME];
    srand(1);
    expect(arrive(0, &in) == PACKETS && in.refused == 0, "a good bus loses nothing");
    const unsigned came = arrive(50, &harmed);
    expect(came > PACKETS / 2 && came < PACKETS && harmed.refused > 0, "a bad bus loses some");

    struct line line = {0};
    struct can_out out = {0};
    line_put(&line, bytes, random_packet(1, bytes));
    expect(can_next(&out, &line, frame) == CAN_FRAME && (frame[0] & 0xC0) == 0x80, "a first frame says so");
    line_put(&line, bytes, random_packet(2, bytes));
    line_put(&line, bytes, random_packet(3, bytes));
    expect(out.size > out.at, "a packet that has begun is not replaced");

    memset(frame, 0, sizeof frame);
    frame[0] = 0x80;
    struct can_in endless = {0};
    for (unsigned i = 0; i < 2 * PACKET_SIZE; i++) { /* a packet without an end never grows beyond its room */
        expect(can_take(&endless, frame, CAN_FRAME) == 0 && endless.size <= PACKET_SIZE, "a packet has no end");
        frame[0] = (uint8_t)((i + 1) & 0x3F);
    }
    expect(endless.refused > 0 && can_take(&endless, frame, 0) == 0 && can_take(&endless, frame, 1) == 0,
           "frames without data are refused");
    printf("can: %s\n", fails ? "failed" : "ok");
    return fails != 0;
}
