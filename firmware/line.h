/* What waits to leave over a line that is slower than it is asked to be: at most one packet beside those of faults.
 *
 * The newest packet replaces an older one that waits, so that nothing old ever arrives and no queue grows; a fault is
 * never replaced by anything else, and leaves first. Give line_put as the `send` of device_init, and let line_next fill the UART whenever it has sent what it had.
 */
#ifndef SERVONODE_LINE_H
#define SERVONODE_LINE_H

#include "packet.h"

#define LINE_FAULT (PACKET_HEADER + 12u + PACKET_CRC) /* bytes of a fault */

struct line {
    uint8_t newest[PACKET_SIZE], fault[LINE_FAULT];
    size_t n_newest, n_fault; /* their sizes; 0: none waits */
    uint32_t replaced;        /* packets that did not leave, for a newer one came */
};

/* Let a packet wait until the line is free. */
void line_put(void *line, const uint8_t *bytes, size_t size);

/* The next packet for the line: its size, 0 where none waits. */
size_t line_take(struct line *line, uint8_t packet[PACKET_SIZE]);

/* The next packet for a serial line as a frame: its size, 0 where none waits. */
size_t line_next(struct line *line, uint8_t frame[PACKET_FRAME]);

#endif
