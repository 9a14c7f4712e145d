/* What waits for a slow line: the newest packet alone, and a fault before it. */
#include "../line.h"

#include <stdio.h>
#include <string.h>

static int fails;

static void expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "line: %s\n", what);
        fails++;
    }
}

static size_t state_of(uint32_t seq, uint8_t *bytes)
{
    const struct packet head = {.run = 1, .source = 2, .seq = seq};
    const float x[] = {1.0f}, u[] = {0.0f};
    return packet_write_state(&head, 0, x, 1, u, 1, bytes);
}

/* The packet that leaves next; its type, or 0. */
static int leaves(struct line *line, struct packet *packet)
{
    static uint8_t frame[PACKET_FRAME], bytes[PACKET_SIZE];
    const size_t size = line_next(line, frame);
    if (!size || packet_decode(bytes, cobs_decode(frame, size - 1, bytes, sizeof bytes), packet) != PACKET_GOOD)
        return 0;
    return packet->type;
}

int main(void)
{
    static struct line line;
    uint8_t bytes[PACKET_SIZE];
    struct packet packet;
    const struct packet head = {.run = 1, .source = 2, .seq = 9};
    expect(!leaves(&line, &packet), "nothing waits at first");
    for (uint32_t seq = 0; seq < 3; seq++)
        line_put(&line, bytes, state_of(seq, bytes));
    line_put(&line, bytes, packet_write_fault(&head, FAULT_SENSOR, 0, bytes));
    line_put(&line, bytes, state_of(3, bytes));
    expect(leaves(&line, &packet) == PACKET_FAULT, "a fault leaves first");
    expect(leaves(&line, &packet) == PACKET_STATE && packet.seq == 3, "the newest state leaves, and no older one");
    expect(!leaves(&line, &packet) && line.replaced == 3, "nothing else waits");
    printf("line: %s\n", fails ? "failed" : "ok");
    return fails != 0;
}
