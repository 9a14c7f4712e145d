/* How packets travel on this computer: a pseudo-terminal, which servonode opens as a serial port, or UDP. */
#ifndef SERVONODE_WIRE_H
#define SERVONODE_WIRE_H

#include <netinet/in.h>

#include "../packet.h"

struct wire {
    int fd, is_udp;
    struct sockaddr_in peer, from; /* whom to send to; who sent what came last */
    uint8_t frame[PACKET_FRAME];   /* of a terminal: what has come since the last zero byte */
    size_t filled;
    int overlong;
    double corrupt;    /* the chance that bytes of a packet are changed, either way */
    uint64_t random;
};

/* Open a pseudo-terminal whose name is linked to from `path`. 0, or -1 after a message. */
int wire_open_terminal(struct wire *wire, const char *path);

/* Take that link away, if it is still ours. */
void wire_unlink(const struct wire *wire, const char *path);

/* Bind a UDP socket to a numeric address and a port. 0, or -1 after a message. */
int wire_open_udp(struct wire *wire, const char *address, unsigned port);

/* Send a packet; lost where nobody reads. */
void wire_send(void *wire, const uint8_t *bytes, size_t size);

/* Hand what has come to `take`, packet by packet; what it makes of each is its own business. */
void wire_receive(struct wire *wire, void (*take)(void *to, uint8_t *bytes, size_t size), void *to);

#endif
