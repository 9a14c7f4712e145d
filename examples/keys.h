/* Keys: CURVE on both sockets, and ZAP, by which libzmq asks who may connect: here the host alone. */

#ifndef KEYS_H
#define KEYS_H

#include "private_sockets.h"

#include <stdio.h>
#include <string.h>
#include <zmq.h>

#ifndef ZMQ_ZAP_ENFORCE_DOMAIN
#define ZMQ_ZAP_ENFORCE_DOMAIN 93 /* libzmq has it since 4.3.0, zmq.h calls it a draft: without an answer nobody connects */
#endif

enum { KEY_SIZE = 41 }; /* a key in ZeroMQ's text form, with its end */

/* The key behind `name` in a file that `servonode keys new` has made. */
static void read_key(const char *file, const char *name, char key[KEY_SIZE])
{
    char line[200], format[40];
    unsigned char bytes[32];
    FILE *opened = fopen(file, "r");
    if (!opened)
        quit(strerror(errno), file);
    snprintf(format, sizeof format, " %s = \"%%40[^\"]\"", name);
    *key = '\0';
    while (fgets(line, sizeof line, opened) && sscanf(line, format, key) != 1) {
    }
    fclose(opened);
    if (strlen(key) != KEY_SIZE - 1 || !zmq_z85_decode(bytes, key))
        quit("holds no such key; make one with servonode keys new", file);
}

/* Give the sockets the key pair in `own`; only the host with the public key in `host` connects to `out`, and `into`
 * receives only from it. Gives the socket at which libzmq asks, and the host's key. */
static void *secure(void *context, void *out, void *into, const char *own, const char *host, char host_key[KEY_SIZE])
{
    char public[KEY_SIZE], secret[KEY_SIZE];
    const int yes = 1;
    void *zap = zmq_socket(context, ZMQ_REP);
    read_key(own, "public-key", public);
    read_key(own, "secret-key", secret);
    read_key(host, "public-key", host_key);
    if (zmq_bind(zap, "inproc://zeromq.zap.01") || zmq_setsockopt(out, ZMQ_CURVE_SERVER, &yes, sizeof yes)
        || zmq_setsockopt(out, ZMQ_CURVE_SECRETKEY, secret, KEY_SIZE)
        || zmq_setsockopt(out, ZMQ_ZAP_DOMAIN, "host", 4)
        || zmq_setsockopt(out, ZMQ_ZAP_ENFORCE_DOMAIN, &yes, sizeof yes)
        || zmq_setsockopt(into, ZMQ_CURVE_SERVERKEY, host_key, KEY_SIZE)
        || zmq_setsockopt(into, ZMQ_CURVE_PUBLICKEY, public, KEY_SIZE)
        || zmq_setsockopt(into, ZMQ_CURVE_SECRETKEY, secret, KEY_SIZE))
        quit("libzmq has no CURVE; take one that was built with libsodium", zmq_strerror(zmq_errno()));
    return zap;
}

/* Answer one question of libzmq: version, number, domain, address, identity, mechanism, key. */
static void answer_for_keys(void *zap, const char host_key[KEY_SIZE])
{
    char number[256], frame[256], text[KEY_SIZE];
    int i, size, more = 1, number_size = 0, allowed = 0;
    size_t length = sizeof more;
    for (i = 0; more; i++) {
        size = zmq_recv(zap, i == 1 ? number : frame, sizeof frame, ZMQ_DONTWAIT);
        if (size < 0 || zmq_getsockopt(zap, ZMQ_RCVMORE, &more, &length))
            return;
        if (i == 1)
            number_size = size < (int)sizeof number ? size : (int)sizeof number;
        if (i == 6)
            allowed = size == 32 && zmq_z85_encode(text, (const unsigned char *)frame, 32)
                && strcmp(text, host_key) == 0;
    }
    zmq_send(zap, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(zap, number, (size_t)number_size, ZMQ_SNDMORE);
    zmq_send(zap, allowed ? "200" : "400", 3, ZMQ_SNDMORE);
    zmq_send(zap, allowed ? "OK" : "no", 2, ZMQ_SNDMORE);
    zmq_send(zap, allowed ? "host" : "", allowed ? 4 : 0, ZMQ_SNDMORE);
    zmq_send(zap, "", 0, 0);
}

#endif
