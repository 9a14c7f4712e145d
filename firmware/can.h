/* Packets as frames of a CAN bus, and back: docs/reference/firmware.md, the section on CAN.
 *
 * Byte 0 of a frame has whether it is the first (bit 7) and the last (bit 6) of its packet, and its number in it, modulo
 * 64; up to 7 bytes of the packet follow. One identifier has the frames to the machine, another one those from it.
 * Nothing here allocates or blocks.
 */
#ifndef SERVONODE_CAN_H
#define SERVONODE_CAN_H

#include "line.h"

#define CAN_FRAME 8u

/* What leaves: the packet whose frames are being sent. All zero at first. */
struct can_out {
    uint8_t packet[PACKET_SIZE];
    size_t size, at;
    unsigned number;
};

/* What comes in: the packet so far. All zero at first. */
struct can_in {
    uint8_t packet[PACKET_SIZE];
    size_t size;
    unsigned number;
    int open;         /* whether a packet has begun */
    uint32_t refused; /* frames out of order, or of a packet that is too long */
};

/* The next frame for the bus, of what waits in `line`: its size, 0 where nothing does. Call it whenever the controller
 * has room for a frame. */
size_t can_next(struct can_out *out, struct line *line, uint8_t frame[CAN_FRAME]);

/* Take a frame with the machine's identifier: the size of the packet that it completes, in in->packet; else 0. */
size_t can_take(struct can_in *in, const uint8_t *frame, size_t size);

#endif
