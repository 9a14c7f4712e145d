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

size_t line_next(struct line *line, uint8_t frame[PACKET_FRAME])
{
    size_t size = 0;
    if (line->n_fault)
        size = cobs_encode(line->fault, line->n_fault, frame);
    else if (line->n_newest)
        size = cobs_encode(line->newest, line->n_newest, frame);
    if (line->n_fault)
        line->n_fault = 0;
    else
        line->n_newest = 0;
    return size;
}
