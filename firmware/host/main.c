/* The firmware on this computer: a machine of a launch file behind a pseudo-terminal or UDP.
 *
 *     robot --pty PATH             a pseudo-terminal, linked to from PATH: plant.device.port = "PATH"
 *     robot --udp [ADDRESS:]PORT   UDP, on 127.0.0.1 by default: plant.device.address = "127.0.0.1:PORT"
 *
 * --any-speed: allow speeds other than 1. --corrupt P: the probability that bytes of a packet are changed. --delay S:
 * delay of everything that it sends [s]. --no-law: leave out the law of the launch file. --readings: send only readings
 * of its sensors, not its state. --truth FILE: write its true states every 10 steps, each row with the step first.
 */
#define _GNU_SOURCE /* ppoll */

#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../device.h"
#include "simulated.h"
#include "wire.h"

#define LONGEST_DELAY_S 60.0
#define PLACE 64 /* bytes of an address with its port */

struct firmware {
    struct device device;
    struct wire wire;
};

static volatile sig_atomic_t ends;
static FILE *truth; /* where it writes its true states, if anywhere */
static unsigned n_states;

static void observe(uint64_t k, const double *x, const double *u)
{
    sensors_read(x, u, k == 0);
    if (!truth || k % 10)
        return;
    fprintf(truth, "%" PRIu64, k);
    for (unsigned i = 0; i < n_states; i++)
        fprintf(truth, ",%.17g", x[i]);
    fputc('\n', truth);
    fflush(truth);
}

static void on_signal(int number)
{
    (void)number;
    ends = 1;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int same(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
    return a->sin_port == b->sin_port && a->sin_addr.s_addr == b->sin_addr.s_addr;
}

static void take(void *to, uint8_t *bytes, size_t size)
{
    struct firmware *firmware = to;
    struct device *device = &firmware->device;
    struct wire *wire = &firmware->wire;
    const struct sockaddr_in before = wire->peer;
    const int64_t now = now_ns();
    if (wire->is_udp && device_has_host(device, now) && !same(&wire->from, &wire->peer)) {
        device->refused++; /* who is not the host is not even read */
        return;
    }
    wire->peer = wire->from; /* to answer a refusal too */
    if (!device_receive(device, now, bytes, size))
        wire->peer = before;
}

static void serve(struct firmware *firmware)
{
    sigset_t during, outside;
    sigemptyset(&during);
    sigaddset(&during, SIGINT);
    sigaddset(&during, SIGTERM);
    sigprocmask(SIG_BLOCK, &during, &outside); /* they come in ppoll alone, so that none is missed */
    while (!ends) {
        struct pollfd ready = {firmware->wire.fd, POLLIN, 0};
        struct timespec wait = {0, 0};
        int64_t due = device_due(&firmware->device);
        const int64_t leaves = wire_due(&firmware->wire), now = now_ns();
        if (leaves < due)
            due = leaves;
        if (due > now) {
            wait.tv_sec = (time_t)((due - now) / 1000000000);
            wait.tv_nsec = (long)((due - now) % 1000000000);
        }
        if (ppoll(&ready, 1, due == INT64_MAX ? NULL : &wait, &outside) > 0)
            wire_receive(&firmware->wire, take, firmware);
        device_advance_to(&firmware->device, now_ns());
        wire_flush(&firmware->wire, now_ns());
    }
}

static int usage(void)
{
    fprintf(stderr, "usage: robot --pty PATH | --udp [ADDRESS:]PORT [--any-speed] [--corrupt CHANCE] [--delay SECONDS] "
                    "[--no-law] [--readings] [--truth FILE]\n");
    return 2;
}

/* The number that a word is, from 0 to most; else NAN, after a message. */
static double number_of(const char *option, const char *word, double most)
{
    char *end;
    const double number = strtod(word, &end);
    if (end != word && !*end && number >= 0.0 && number <= most)
        return number;
    fprintf(stderr, "%s '%s': give a number from 0 to %g\n", option, word, most);
    return NAN;
}

/* Bind what --udp names; its whole address is then in place[PLACE]. 0, or -1 after a message. */
static int open_udp(struct wire *wire, char *udp, char *place)
{
    char *colon = strrchr(udp, ':'), *end;
    const char *port = colon ? colon + 1 : udp;
    const long number = strtol(port, &end, 10);
    if (end == port || *end || number < 1 || number > 65535) {
        fprintf(stderr, "'%s' is not a port; give a number from 1 to 65535\n", port);
        return -1;
    }
    if (colon)
        *colon = 0;
    const char *address = colon ? udp : "127.0.0.1";
    snprintf(place, PLACE, "%s:%ld", address, number);
    return wire_open_udp(wire, address, (unsigned)number);
}

int main(int count, char **words)
{
    static struct firmware firmware;
    const char *path = NULL, *truth_path = NULL;
    char *udp = NULL, place[PLACE] = {0};
    int any_speed = 0, own_law = 1, readings = 0;
    double delay_s = 0.0;
    for (int i = 1; i < count; i++) {
        if (!strcmp(words[i], "--pty") && i + 1 < count)
            path = words[++i];
        else if (!strcmp(words[i], "--udp") && i + 1 < count)
            udp = words[++i];
        else if (!strcmp(words[i], "--corrupt") && i + 1 < count)
            firmware.wire.corrupt = number_of("--corrupt", words[++i], 1.0);
        else if (!strcmp(words[i], "--delay") && i + 1 < count)
            delay_s = number_of("--delay", words[++i], LONGEST_DELAY_S);
        else if (!strcmp(words[i], "--no-law"))
            own_law = 0;
        else if (!strcmp(words[i], "--readings"))
            readings = 1;
        else if (!strcmp(words[i], "--truth") && i + 1 < count)
            truth_path = words[++i];
        else if (!strcmp(words[i], "--any-speed"))
            any_speed = 1;
        else
            return usage();
    }
    if (!path == !udp)
        return usage();
    if (isnan(firmware.wire.corrupt) || isnan(delay_s))
        return 1;
    firmware.wire.delay_ns = (int64_t)(delay_s * 1e9);
    struct machine machine = simulated_machine(any_speed, own_law);
    if (readings && !simulated_sensors(&machine)) {
        fprintf(stderr, "this machine has no sensors; leave --readings out\n");
        return 2;
    }
    if (truth_path && !(truth = fopen(truth_path, "w"))) {
        perror(truth_path);
        return 2;
    }
    n_states = machine.n_states;
    simulated_observer = observe;
    firmware.wire.now = now_ns;
    firmware.wire.random = (uint64_t)now_ns() | 1;
    if (path ? wire_open_terminal(&firmware.wire, path) : open_udp(&firmware.wire, udp, place))
        return 1;
    device_init(&firmware.device, &machine, (uint32_t)(firmware.wire.random ^ (uint64_t)getpid()), wire_send,
                &firmware.wire);
    struct sigaction action = {0};
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    printf("serving at %s\n", path ? path : place);
    fflush(stdout);
    serve(&firmware);
    if (path)
        wire_unlink(&firmware.wire, path);
    return 0;
}
