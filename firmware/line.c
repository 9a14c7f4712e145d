#include "line.h"

#include <string.h>

#define TYPE 3 /* where a packet has its type */

void line_put(void *to, const uint8_t *bytes, size_t size)
{
    struct line *line = to;
    if (size > TYPE && bytes[TYPE] == PACKET_FAULT && size <= sizeof line->fault) {
        memcpy(line->fault, bytes, size);
        line->n_fault = size;
        return;
    }
    if (size > sizeof line->newest)
        return;
    line->replaced += line->n_newest > 0;
    memcpy(line->newest, bytes, size);
    line->n_newest = size;
}

size_t line_take(struct line *line, uint8_t packet[PACKET_SIZE])
{
    const int fault = line->n_fault > 0;
    const size_t size = fault ? line->n_fault : line->n_newest;
    memcpy(packet, fault ? line->fault : line->newest, size);
    if (fault)
        line->n_fault = 0;
    else
        line->n_newest = 0;
    return size;
}

size_t line_next(struct line *line, uint8_t frame[PACKET_FRAME])
{
    uint8_t packet[PACKET_SIZE];
    const size_t size = line_take(line, packet);
    return size ? cobs_encode(packet, size, frame) : 0;
}
