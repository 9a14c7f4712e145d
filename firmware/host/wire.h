/* How packets travel on this computer: a pseudo-terminal, which servonode opens as a serial port, or UDP. */
#ifndef SERVONODE_WIRE_H
#define SERVONODE_WIRE_H

#include <netinet/in.h>

#include "../packet.h"

#define WIRE_LATE 512 /* packets that may be on the way at once; more are lost */

struct wire {
    int fd, is_udp;
    struct sockaddr_in peer, from; /* whom to send to; who sent what came last */
    uint8_t frame[PACKET_FRAME];   /* of a terminal: what has come since the last zero byte */
    size_t filled;
    int overlong;
    double corrupt;    /* the chance that bytes of a packet are changed, either way */
    uint64_t random;

    /* what leaves late, for tests too */
    int64_t delay_ns;
    int64_t (*now)(void);
    struct late {
        int64_t due_ns;
        size_t size;
        struct sockaddr_in peer;
        uint8_t bytes[PACKET_FRAME];
    } late[WIRE_LATE];
    unsigned oldest, waiting;
};

/* Open a pseudo-terminal whose name is linked to from `path`. 0, or -1 after a message. */
int wire_open_terminal(struct wire *wire, const char *path);

/* Take that link away, if it is still ours. */
void wire_unlink(const struct wire *wire, const char *path);

/* Bind a UDP socket to a numeric address and a port. 0, or -1 after a message. */
int wire_open_udp(struct wire *wire, const char *address, unsigned port);

/* Send a packet, at once or after the delay; lost where nobody reads. */
void wire_send(void *wire, const uint8_t *bytes, size_t size);

/* When the next packet leaves that waits [ns]; INT64_MAX: none does. */
int64_t wire_due(const struct wire *wire);

/* Let those leave whose time has come. */
void wire_flush(struct wire *wire, int64_t now);

/* Hand what has come to `take`, packet by packet; what it makes of each is its own business. */
void wire_receive(struct wire *wire, void (*take)(void *to, uint8_t *bytes, size_t size), void *to);

#endif
