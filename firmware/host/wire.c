#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE

#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

static int complain(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return -1;
}

/* Make `path` a link to the terminal, in the place of a link that a killed program left. */
static int link_to(const char *name, const char *path)
{
    static const char terminals[] = "/dev/pts/";
    char target[sizeof terminals] = {0};
    struct stat found;
    if (lstat(path, &found) == 0) {
        if (readlink(path, target, sizeof target - 1) < 0 || strcmp(target, terminals)) {
            fprintf(stderr, "%s exists and is not a link to a pseudo-terminal; give another path\n", path);
            return -1;
        }
        unlink(path);
    }
    return symlink(name, path) ? complain(path) : 0;
}

void wire_unlink(const struct wire *wire, const char *path)
{
    const char *name = ptsname(wire->fd);
    char found[64];
    const ssize_t length = readlink(path, found, sizeof found);
    if (name && length == (ssize_t)strlen(name) && !memcmp(found, name, (size_t)length))
        unlink(path);
}

int wire_open_terminal(struct wire *wire, const char *path)
{
    struct termios raw;
    const char *name;
    wire->is_udp = 0;
    wire->fd = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (wire->fd < 0 || grantpt(wire->fd) || unlockpt(wire->fd) || !(name = ptsname(wire->fd)))
        return complain("pseudo-terminal");
    const int other = open(name, O_RDWR | O_NOCTTY); /* stays open: else we hang up when servonode closes its end */
    if (other < 0 || tcgetattr(other, &raw))
        return complain(name);
    cfmakeraw(&raw);
    if (tcsetattr(other, TCSANOW, &raw))
        return complain(name);
    return link_to(name, path);
}

int wire_open_udp(struct wire *wire, const char *address, unsigned port)
{
    struct sockaddr_in here = {0};
    wire->is_udp = 1;
    here.sin_family = AF_INET;
    here.sin_port = htons((uint16_t)port);
    if (inet_pton(AF_INET, address, &here.sin_addr) != 1) {
        fprintf(stderr, "%s is not a numeric address; give one such as 127.0.0.1\n", address);
        return -1;
    }
    wire->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (wire->fd < 0 || bind(wire->fd, (struct sockaddr *)&here, sizeof here))
        return complain(address);
    return 0;
}

/* faults of the wire, for tests */

static double chance(struct wire *wire)
{
    wire->random ^= wire->random << 13;
    wire->random ^= wire->random >> 7;
    wire->random ^= wire->random << 17;
    return (double)(wire->random >> 11) / 9007199254740992.0;
}

static void disturb(struct wire *wire, uint8_t *bytes, size_t size)
{
    if (size == 0 || chance(wire) >= wire->corrupt)
        return;
    for (int i = 0; i < 3; i++)
        bytes[(size_t)(chance(wire) * (double)size)] ^= (uint8_t)(1 + chance(wire) * 255.0);
}

/* packets */

static void leave(struct wire *wire, const uint8_t *bytes, size_t size, const struct sockaddr_in *peer)
{
    if (!wire->is_udp)
        (void)!write(wire->fd, bytes, size); /* where nobody reads, it is lost */
    else if (peer->sin_port)
        sendto(wire->fd, bytes, size, 0, (const struct sockaddr *)peer, sizeof *peer);
}

void wire_send(void *to, const uint8_t *bytes, size_t size)
{
    struct wire *wire = to;
    uint8_t out[PACKET_FRAME];
    if (wire->is_udp)
        memcpy(out, bytes, size);
    else
        size = cobs_encode(bytes, size, out);
    disturb(wire, out, size);
    if (wire->delay_ns <= 0) {
        leave(wire, out, size, &wire->peer);
    } else if (wire->waiting < WIRE_LATE) {
        struct late *late = &wire->late[(wire->oldest + wire->waiting++) % WIRE_LATE];
        late->due_ns = wire->now() + wire->delay_ns;
        late->size = size;
        late->peer = wire->peer;
        memcpy(late->bytes, out, size);
    }
}

int64_t wire_due(const struct wire *wire)
{
    return wire->waiting ? wire->late[wire->oldest].due_ns : INT64_MAX;
}

void wire_flush(struct wire *wire, int64_t now)
{
    while (wire_due(wire) <= now) {
        const struct late *late = &wire->late[wire->oldest];
        leave(wire, late->bytes, late->size, &late->peer);
        wire->oldest = (wire->oldest + 1) % WIRE_LATE;
        wire->waiting--;
    }
}

static void receive_udp(struct wire *wire, void (*take)(void *to, uint8_t *bytes, size_t size), void *to)
{
    uint8_t bytes[PACKET_SIZE + 1];
    for (int i = 0; i < 64; i++) {
        socklen_t length = sizeof wire->from;
        const ssize_t came = recvfrom(wire->fd, bytes, sizeof bytes, 0, (struct sockaddr *)&wire->from, &length);
        if (came < 0)
            return;
        disturb(wire, bytes, (size_t)came);
        take(to, bytes, (size_t)came);
    }
}

static void receive_terminal(struct wire *wire, void (*take)(void *to, uint8_t *bytes, size_t size), void *to)
{
    uint8_t bytes[512], packet[PACKET_FRAME];
    ssize_t came;
    for (int i = 0; i < 16 && (came = read(wire->fd, bytes, sizeof bytes)) > 0; i++) {
        disturb(wire, bytes, (size_t)came);
        for (ssize_t j = 0; j < came; j++) {
            if (bytes[j] != 0 && wire->filled < sizeof wire->frame) {
                wire->frame[wire->filled++] = bytes[j];
            } else if (bytes[j] != 0) {
                wire->overlong = 1;
            } else {
                if (wire->filled && !wire->overlong)
                    take(to, packet, cobs_decode(wire->frame, wire->filled, packet, sizeof packet));
                wire->filled = 0;
                wire->overlong = 0;
            }
        }
    }
}

void wire_receive(struct wire *wire, void (*take)(void *to, uint8_t *bytes, size_t size), void *to)
{
    (wire->is_udp ? receive_udp : receive_terminal)(wire, take, to);
}
