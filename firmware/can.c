#include "can.h"

#include <string.h>

#define DATA (CAN_FRAME - 1u)
#define FIRST 0x80u
#define LAST 0x40u
#define NUMBER 0x3Fu

size_t can_next(struct can_out *out, struct line *line, uint8_t frame[CAN_FRAME])
{
    if (out->at == out->size) {
        out->at = 0;
        out->number = 0;
        out->size = line_take(line, out->packet);
        if (!out->size)
            return 0;
    }
    const size_t left = out->size - out->at, size = left < DATA ? left : DATA;
    frame[0] = (uint8_t)((out->at ? 0u : FIRST) | (size == left ? LAST : 0u) | (out->number++ & NUMBER));
    memcpy(frame + 1, out->packet + out->at, size);
    out->at += size;
    return size + 1;
}

static size_t refuse(struct can_in *in)
{
    in->refused++;
    in->open = 0;
    return 0;
}

size_t can_take(struct can_in *in, const uint8_t *frame, size_t size)
{
    if (size < 2 || size > CAN_FRAME)
        return refuse(in);
    if (frame[0] & FIRST) {
        in->refused += in->open != 0; /* the packet before has no end */
        in->open = 1;
        in->size = 0;
        in->number = 0;
    }
    if (!in->open || (frame[0] & NUMBER) != (in->number & NUMBER) || in->size + size - 1 > sizeof in->packet)
        return refuse(in);
    memcpy(in->packet + in->size, frame + 1, size - 1);
    in->size += size - 1;
    in->number++;
    if (!(frame[0] & LAST))
        return 0;
    in->open = 0;
    return in->size;
}
