/* A machine that is a process of its own: the robot with trailer in C, the other side of docs/reference/protocol.md.
 *
 *     make -C examples                      (needs libzmq and msgpack-c: libzmq3-dev and libmsgpack-dev on Debian)
 *     examples/build/external_plant [STATE_ADDRESS APPLIED_ADDRESS] [--any-speed] [--keys OWN.key_secret HOST.key]
 *
 * In another terminal: servonode run trailer_pursuit_external. It serves one run after the other, until Ctrl-C or
 * SIGTERM. Its equations are those of servonode, as `servonode show FILE --c` prints them: in lockstep it has the same
 * bits. For another machine whose states are numbers and no lists, say `make LAUNCH=FILE` and give OWN_LIMITS.
 * external_plant.py does the same in Python, with equations written by hand. */

#define _POSIX_C_SOURCE 200809L

#include "keys.h"
#include "messages.h"
#include "plant.c" /* servonode show trailer_pursuit_external --c */
#include "private_sockets.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

enum { N_STATE = SERVONODE_N_STATE, N_INPUTS = SERVONODE_N_INPUTS, N_PARAMETERS = SERVONODE_N_PARAMETERS };

static const char *const STATES[N_STATE] = SERVONODE_STATE_NAMES;
static const char *const INPUTS[N_INPUTS] = SERVONODE_INPUT_NAMES;
static const char *const PARAMETERS[N_PARAMETERS] = SERVONODE_PARAMETER_NAMES;
static const double PARAMETER_VALUES[N_PARAMETERS] = SERVONODE_PARAMETERS;

static const double OWN_LIMITS[N_INPUTS] = {2.0, 2.0}; /* N m; this machine's own: a host's act only below them */
static const double MAX_TIMEOUT = 0.5;    /* s (wall clock) without a fresh input, whatever a host asks for */
static const double MAX_SPEED = 1e6;      /* of a simulation that was started with --any-speed */
static const int64_t MAX_STEPS = 1000000; /* of one order in lockstep */
static const int64_t AT_ONCE = 100000;    /* steps in real time before it looks for messages again */
enum { REMEMBERED = 1024 }; /* messages whose times are known: at one a millisecond more than MAX_TIMEOUT */

struct robot {
    void *out, *into, *zap;         /* sockets; the last, where there are keys, is asked who may connect */
    char host_key[KEY_SIZE];        /* of the one who may */
    msgpack_sbuffer bytes;          /* of the message that is being made */
    double x[SERVONODE_N_X];        /* the state, and its work */
    double u[N_INPUTS], limits[N_INPUTS];
    double speed, timeout;          /* s (wall clock) */
    double began, fresh;            /* when the run began, and when an input came [s, monotonic clock] */
    int64_t first, k, published;    /* plant step at which the run began, the present one, the newest that was sent */
    int64_t run, host, taken;       /* of the run, of who began it, seq of the newest input taken; -1: none */
    int64_t setup_seq;              /* of the setup that began it */
    int64_t src, seq;               /* this start of ours, number of our newest message */
    double sent_at[REMEMBERED];     /* s (monotonic clock), by number modulo REMEMBERED */
    int running, lockstep, any_speed;
};

static volatile sig_atomic_t ended;

static void end(int number)
{
    (void)number;
    ended = 1;
}

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec*1000000000 + now.tv_nsec;
}

static double seconds(void)
{
    return (double)nanoseconds()/1e9;
}

/* --- what it sends ------------------------------------------------------------------------------------------- */

/* Begin a message of so many entries beside the header. */
static msgpack_packer begun(struct robot *robot, size_t entries, int64_t run, int64_t k)
{
    msgpack_packer to;
    msgpack_sbuffer_clear(&robot->bytes);
    msgpack_packer_init(&to, &robot->bytes, msgpack_sbuffer_write);
    msgpack_pack_map(&to, entries + 7);
    put_text(&to, "t");
    msgpack_pack_double(&to, (double)k*SERVONODE_STEP_S);
    put_whole(&to, "k", k);
    put_whole(&to, "run", run);
    put_whole(&to, "src", robot->src);
    put_whole(&to, "seq", ++robot->seq);
    robot->sent_at[robot->seq%REMEMBERED] = seconds();
    put_whole(&to, "mono", nanoseconds());
    put_text(&to, "node");
    put_text(&to, SERVONODE_NAME);
    return to;
}

static void send_as(struct robot *robot, const char *topic)
{
    zmq_send(robot->out, topic, strlen(topic), ZMQ_SNDMORE);
    zmq_send(robot->out, robot->bytes.data, robot->bytes.size, 0);
}

static void publish(struct robot *robot)
{
    msgpack_packer to = begun(robot, 4, robot->run, robot->k);
    put_numbers(&to, "state", STATES, robot->x, N_STATE);
    put_numbers(&to, "input", INPUTS, robot->u, N_INPUTS);
    put_text(&to, "control");
    msgpack_pack_false(&to);
    put_whole(&to, "applied_seq", robot->taken);
    send_as(robot, "state");
    robot->published = robot->k;
}

/* Say why this machine takes no part in a run. */
static void refuse(struct robot *robot, int64_t run, const char *fault)
{
    msgpack_packer to = begun(robot, 4, run, 0);
    put_text(&to, "lifecycle");
    put_text(&to, "fault");
    put_text(&to, "fault");
    put_text(&to, fault);
    put_numbers(&to, "counts", NULL, NULL, 0);
    put_numbers(&to, "values", NULL, NULL, 0);
    send_as(robot, "status");
}

/* --- the machine ------------------------------------------------------------------------------------------------ */

static void integrate(struct robot *robot, int64_t until)
{
    for (; robot->k < until; robot->k++)
        SERVONODE_PLANT_STEP((double)robot->k*SERVONODE_STEP_S, robot->x, robot->u);
}

static void zero(struct robot *robot)
{
    memset(robot->u, 0, sizeof robot->u);
}

/* In real time: the steps up to now on a grid counted from the setup, the last ones safe if no fresh input has come. */
static void catch_up(struct robot *robot)
{
    const double now = seconds(), safe_at = robot->fresh + robot->timeout, per_second = robot->speed/SERVONODE_STEP_S;
    const double before = now < safe_at ? now : safe_at;
    const int64_t most = robot->k + AT_ONCE;
    int64_t safe = robot->first + (int64_t)((before - robot->began)*per_second);
    int64_t until = robot->first + (int64_t)((now - robot->began)*per_second);
    integrate(robot, safe < most ? safe : most);
    if (now >= safe_at)
        zero(robot);
    integrate(robot, until < most ? until : most);
    if (robot->k != robot->published)
        publish(robot);
}

/* --- what a host sends ----------------------------------------------------------------------------------------- */

/* Whether a setup holds all that the page says; `fault`: why this machine takes no part in its run, empty: it does. */
static int read_setup(struct robot *robot, const msgpack_object *setup, struct robot *next, char *fault, size_t size)
{
    const msgpack_object *inputs = entry(setup, "inputs"), *limits = entry(setup, "limits");
    const msgpack_object *parameters = entry(setup, "parameters"), *start = entry(setup, "start");
    const msgpack_object *machine = entry(setup, "machine"), *mode = entry(setup, "mode");
    const msgpack_object *command = entry(setup, "command"); /* absent: effort */
    double step, k, value;
    int i, fits, usable = 1, other = -1;
    if (!machine || !mode || !inputs || !limits || limits->type != MSGPACK_OBJECT_MAP || !number(setup, "k", &k)
        || !number(setup, "step", &step) || !number(setup, "speed", &next->speed)
        || !number(setup, "timeout", &next->timeout))
        return 0;
    next->lockstep = is_text(mode, "lockstep");
    fits = is_text(machine, SERVONODE_NAME) && inputs->type == MSGPACK_OBJECT_ARRAY
        && inputs->via.array.size == N_INPUTS;
    for (i = 0; fits && i < N_INPUTS; i++)
        fits = is_text(&inputs->via.array.ptr[i], INPUTS[i]);
    for (i = 0; fits && i < N_PARAMETERS; i++) {
        if (!number(parameters, PARAMETERS[i], &value))
            return 0;
        other = value == PARAMETER_VALUES[i] || other >= 0 ? other : i;
    }
    for (i = 0; i < N_INPUTS; i++) {
        value = OWN_LIMITS[i];
        if (entry(limits, INPUTS[i]) && !number(limits, INPUTS[i], &value))
            return 0;
        usable = usable && value >= 0.0; /* which NaN is not */
        next->limits[i] = value < OWN_LIMITS[i] ? value : OWN_LIMITS[i];
    }
    if (!fits) {
        int n = snprintf(fault, size, "this is %s with the inputs", SERVONODE_NAME);
        for (i = 0; i < N_INPUTS && n > 0 && (size_t)n < size; i++)
            n += snprintf(fault + n, size - (size_t)n, "%s %s", i ? "," : "", INPUTS[i]);
    } else if (command && !is_text(command, "effort")) {
        snprintf(fault, size, "this machine takes efforts; set plant.command = \"effort\"");
    } else if (step != SERVONODE_STEP_S) {
        snprintf(fault, size, "step must be %g s, for which this program was built", SERVONODE_STEP_S);
    } else if (!(next->timeout > 0.0 && isfinite(next->timeout) && next->speed > 0.0 && next->speed <= MAX_SPEED)) {
        snprintf(fault, size, "send timeout and speed finite and positive, speed at most %g", MAX_SPEED);
    } else if (!usable || !(k >= 0.0 && k <= (double)EXACT && floor(k) == k)) {
        snprintf(fault, size, "limits must not be negative, and k must be a whole number of 0 or more");
    } else if (!next->lockstep && next->speed != 1.0 && !robot->any_speed) {
        snprintf(fault, size, "this machine runs at speed 1; start it with --any-speed for other speeds");
    } else if (other >= 0) {
        number(parameters, PARAMETERS[other], &value);
        snprintf(fault, size, "parameter %s is %g, but this program was built with %g; build it from your launch file",
            PARAMETERS[other], value, PARAMETER_VALUES[other]);
    } else {
        next->first = next->k = (int64_t)k;
        if (next->k > 0)
            return 1;
        for (i = 0; i < N_STATE; i++) /* a simulation starts there; hardware is where it is */
            if (!number(start, STATES[i], &next->x[i]) || !isfinite(next->x[i]))
                return 0;
    }
    return 1;
}

static void begin(struct robot *robot, const msgpack_object *setup)
{
    struct robot next = *robot;
    char fault[200] = "";
    if (!whole(setup, "run", &next.run) || !whole(setup, "src", &next.host) || !whole(setup, "seq", &next.setup_seq)
        || next.run < 1 || next.host < 1)
        return;
    if (robot->running && next.host != robot->host && seconds() < robot->fresh + robot->timeout)
        return; /* the host that began a run keeps it, to its end or its silence */
    if (next.host == robot->host && next.setup_seq < robot->setup_seq && seconds() < robot->fresh + robot->timeout)
        return; /* it was long under way: a newer run has begun */
    if (next.run != robot->run) { /* else it is asked for once more */
        robot->running = 0;
        zero(robot);
        if (!read_setup(robot, setup, &next, fault, sizeof fault))
            return;
        if (*fault) {
            refuse(robot, next.run, fault);
            return;
        }
        *robot = next;
        zero(robot);
        robot->timeout = robot->timeout < MAX_TIMEOUT ? robot->timeout : MAX_TIMEOUT;
        robot->taken = -1; /* nothing taken yet */
        robot->running = 1;
        robot->began = robot->fresh = seconds();
    }
    publish(robot);
}

/* Whether we sent this state within the timeout: what answers an older one has waited in a broken network. */
static int is_recent(const struct robot *robot, int64_t seq)
{
    return seq > 0 && seq > robot->seq - REMEMBERED && seq <= robot->seq
        && seconds() < robot->sent_at[seq%REMEMBERED] + robot->timeout;
}

static void apply(struct robot *robot, const msgpack_object *applied)
{
    const msgpack_object *input = entry(applied, "input"), *final = entry(applied, "final");
    int64_t run, host, seq, k, until, state_seq = -1; /* none, as the host says it where it has received no state */
    double u[N_INPUTS];
    int i, finite = 1;
    if (!whole(applied, "run", &run) || !whole(applied, "src", &host) || !whole(applied, "seq", &seq)
        || !whole(applied, "k", &k) || !whole(applied, "until", &until) || !final
        || final->type != MSGPACK_OBJECT_BOOLEAN || !robot->running || run != robot->run || host != robot->host)
        return;
    whole(applied, "state_seq", &state_seq);
    for (i = 0; i < N_INPUTS; i++) {
        if (!number(input, INPUTS[i], &u[i]))
            return;
        finite = finite && isfinite(u[i]); /* before the clamp, which would turn NaN into the full torque */
        u[i] = u[i] < -robot->limits[i] ? -robot->limits[i] : u[i] > robot->limits[i] ? robot->limits[i] : u[i];
    }
    if (final->via.boolean) {
        robot->running = 0;
        zero(robot);
    } else if (finite && robot->lockstep) {
        robot->fresh = seconds();
        if (k == robot->k && until > k && until <= k + MAX_STEPS) {
            memcpy(robot->u, u, sizeof u);
            robot->taken = seq;
            integrate(robot, until);
        }
        if (until == robot->k) /* also if it was there already: then the last answer was lost */
            publish(robot);
    } else if (finite && seq > robot->taken && is_recent(robot, state_seq)) {
        memcpy(robot->u, u, sizeof u);
        robot->taken = seq;
        robot->fresh = seconds();
    }
}

/* --- sockets ---------------------------------------------------------------------------------------------------- */

static void take(struct robot *robot, zmq_msg_t *topic, zmq_msg_t *body)
{
    const char *data = zmq_msg_data(body);
    const size_t size = zmq_msg_size(body);
    msgpack_unpacked message;
    size_t used = 0;
    if (size > MAX_BYTES || sound((const unsigned char *)data, size, 0) != size)
        return; /* what is no message of ours is as if it had not come */
    msgpack_unpacked_init(&message);
    if (msgpack_unpack_next(&message, data, size, &used) == MSGPACK_UNPACK_SUCCESS) {
        if (zmq_msg_size(topic) == 5 && memcmp(zmq_msg_data(topic), "setup", 5) == 0)
            begin(robot, &message.data);
        else if (zmq_msg_size(topic) == 7 && memcmp(zmq_msg_data(topic), "applied", 7) == 0)
            apply(robot, &message.data);
    }
    msgpack_unpacked_destroy(&message);
}

static void receive(struct robot *robot)
{
    zmq_msg_t topic, body;
    zmq_msg_init(&topic);
    zmq_msg_init(&body);
    if (zmq_msg_recv(&topic, robot->into, ZMQ_DONTWAIT) >= 0 && zmq_msg_more(&topic)
        && zmq_msg_recv(&body, robot->into, 0) >= 0) {
        if (!zmq_msg_more(&body))
            take(robot, &topic, &body);
        while (zmq_msg_more(&body) && zmq_msg_recv(&body, robot->into, 0) >= 0) {
        } /* a message of two frames is ours, others are not */
    }
    zmq_msg_close(&topic);
    zmq_msg_close(&body);
}

static void serve(struct robot *robot)
{
    zmq_pollitem_t items[] = {{robot->into, 0, ZMQ_POLLIN, 0}, {robot->zap, 0, ZMQ_POLLIN, 0}};
    while (!ended) {
        const int realtime = robot->running && !robot->lockstep;
        if (realtime)
            catch_up(robot);
        if (zmq_poll(items, robot->zap ? 2 : 1, realtime ? 1 : 100) < 1)
            continue;
        if (items[0].revents)
            receive(robot);
        if (robot->zap && items[1].revents)
            answer_for_keys(robot->zap, robot->host_key);
    }
}

int main(int count, char **words)
{
    static struct robot robot;
    char base[200], own[2][300] = {"", ""};
    const char *addresses[2] = {own[0], own[1]};
    const struct sigaction ending = {.sa_handler = end};
    const int none = 0;
    const int64_t most_bytes = (int64_t)MAX_BYTES;
    void *context = zmq_ctx_new();
    const char *own_file = NULL, *host_file = NULL;
    int i, named = 0;
    for (i = 1; i < count; i++) {
        if (strcmp(words[i], "--any-speed") == 0)
            robot.any_speed = 1;
        else if (strstr(words[i], "://") && named < 2)
            addresses[named++] = words[i];
        else if (strcmp(words[i], "--keys") == 0 && i + 2 < count) {
            own_file = words[++i];
            host_file = words[++i];
        } else
            quit("no address; give [STATE_ADDRESS APPLIED_ADDRESS] [--any-speed] [--keys OWN.key_secret HOST.key]",
                words[i]);
    }
    if (named == 1)
        quit("one address; give two, those of state and applied", addresses[0]);
    if (named == 0) {
        base_folder(base, sizeof base);
        private_folder(base);
        snprintf(own[0], sizeof own[0], "%s/devices", base);
        private_folder(own[0]);
        snprintf(own[0], sizeof own[0], "ipc://%s/devices/%s.state", base, SERVONODE_NAME);
        snprintf(own[1], sizeof own[1], "ipc://%s/devices/%s.applied", base, SERVONODE_NAME);
    }
    if (strncmp(addresses[0], "ipc://", 6) == 0)
        check_free(addresses[0] + 6);
    msgpack_sbuffer_init(&robot.bytes);
    robot.src = nanoseconds()%EXACT + 1;
    robot.out = zmq_socket(context, ZMQ_PUB);
    robot.into = zmq_socket(context, ZMQ_SUB);
    zmq_setsockopt(robot.out, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(robot.into, ZMQ_MAXMSGSIZE, &most_bytes, sizeof most_bytes);
    zmq_setsockopt(robot.into, ZMQ_SUBSCRIBE, "", 0); /* setup and applied */
    if (own_file)
        robot.zap = secure(context, robot.out, robot.into, own_file, host_file, robot.host_key);
    /* before the socket is there: what others see is cleared away at the end */
    sigaction(SIGINT, &ending, NULL);
    sigaction(SIGTERM, &ending, NULL);
    sigaction(SIGHUP, &ending, NULL);
    if (zmq_bind(robot.out, addresses[0])) /* publishers bind, subscribers connect */
        quit(zmq_strerror(zmq_errno()), addresses[0]);
    if (zmq_connect(robot.into, addresses[1]))
        quit(zmq_strerror(zmq_errno()), addresses[1]);
    serve(&robot);
    zmq_close(robot.out);
    zmq_close(robot.into);
    if (robot.zap)
        zmq_close(robot.zap);
    zmq_ctx_term(context);
    msgpack_sbuffer_destroy(&robot.bytes);
    clear(addresses[0]);
    return 0;
}
