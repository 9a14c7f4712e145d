/* A machine that is a process of its own: the robot with trailer in JavaScript, the other side of
 * docs/reference/protocol.md.
 *
 *     npm install --prefix examples         (once; Node.js 18 or later)
 *     node examples/external_plant.js [STATE_ADDRESS APPLIED_ADDRESS] [--any-speed] [--keys OWN.key_secret HOST.key]
 *
 * In another terminal: servonode run trailer_pursuit_external. It serves one run after the other, until Ctrl-C or
 * SIGTERM. external_plant.py is the same in Python. */

"use strict";

const fs = require("fs");
const os = require("os");
const path = require("path");
const { decode, encode } = require("@msgpack/msgpack");
const zmq = require("zeromq");

const NAME = "diff_drive_trailer";
const STATES = ["X", "Y", "psi", "phi", "V", "Omega", "theta1", "theta2"];
const INPUTS = ["U1", "U2"];
const PARAMETERS = ["b", "l", "r", "Iky", "Ikz", "c_w", "m_k", "m1", "d1", "I1", "m2", "I2"];
const LIMITS = { U1: 2.0, U2: 2.0 }; // N m; this machine's own: a host's act only below them
const MAX_TIMEOUT = 0.5; // s (wall clock) without a fresh input, whatever a host asks for
const REMEMBERED = 1024; // messages whose times are known: at one a millisecond more than MAX_TIMEOUT
const MAX_STEPS = 1e6; // of one order in lockstep
const MAX_SPEED = 1e6; // of a simulation that was started with --any-speed
const BOUNDS = { maxStrLength: 1024, maxArrayLength: 256, maxMapLength: 256 }; // of a message
const ZERO = INPUTS.map(() => 0.0);

const nanoseconds = () => Number(process.hrtime.bigint() % 2n ** 53n); // a whole number here has 53 bits
const seconds = () => Number(process.hrtime.bigint()) / 1e9; // which never begins anew

function quit(text) {
    console.error(text);
    process.exit(1);
}

/* x' under the torques u [N m] of the left and the right wheel; p: the machine's parameters. */
function rates(x, u, p) {
    const [, , psi, phi, V, Omega] = x;
    const left = (V - p.l * Omega) / p.r, right = (V + p.l * Omega) / p.r;
    const phiDot = (-V / p.b) * Math.sin(phi) - Omega, spin = (2 * p.Iky) / p.r ** 2;
    const U1 = u[0] - p.c_w * left, U2 = u[1] - p.c_w * right, k = p.m1 * p.d1;
    const J1 = p.I1 + 2 * p.m_k * p.l ** 2 + 2 * p.Ikz + spin * p.l ** 2;
    const J2 = p.I2 - p.m2 * p.b ** 2, M0 = p.m1 + p.m2 + 2 * p.m_k + spin;
    const pull = k * p.b ** 2 * Omega ** 2 + (p.b ** 2 / p.r) * (U1 + U2);
    const force = -J2 * V * phiDot * Math.sin(phi) * Math.cos(phi) + pull;
    const vDot = force / (J2 * Math.sin(phi) ** 2 + M0 * p.b ** 2);
    const omegaDot = ((p.l / p.r) * (U2 - U1) - k * V * Omega) / J1;
    return [V * Math.cos(psi), V * Math.sin(psi), Omega, phiDot, vDot, omegaDot, left, right];
}

/* --- keys: CURVE on both sockets, and ZAP, by which libzmq asks who may connect: here the host alone ----------- */

const Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/* The key behind this name in a file that `servonode keys new` has made, in ZeroMQ's text form. */
function readKey(file, name) {
    const found = new RegExp(`^\\s*${name}\\s*=\\s*"([^"]{40})"`, "m").exec(fs.readFileSync(file, "latin1"));
    if (!found)
        quit(`${file} holds no ${name}; make a pair with servonode keys new`);
    return found[1];
}

/* The 32 bytes of a key: five letters are four bytes. */
function bytesOf(key) {
    const bytes = Buffer.alloc(32);
    for (let i = 0; i < 8; i++) {
        const letters = [...key.slice(5 * i, 5 * i + 5)];
        bytes.writeUInt32BE(letters.reduce((sum, letter) => 85 * sum + Z85.indexOf(letter), 0), 4 * i);
    }
    return bytes;
}

/* With our key pair and the host's public key nobody else can read states or command. */
async function secure(out, into, own, host) {
    if (!zmq.capability.curve)
        quit("this zeromq has no CURVE; take one that was built with it");
    const [ours, secret] = ["public-key", "secret-key"].map((name) => readKey(own, name));
    const expected = readKey(host, "public-key");
    const zap = new zmq.Reply({ linger: 0 });
    await zap.bind("inproc://zeromq.zap.01");
    answerForKeys(zap, bytesOf(expected));
    Object.assign(out, { curveServer: true, curveSecretKey: secret, zapDomain: "host", zapEnforceDomain: true });
    Object.assign(into, { curveServerKey: expected, curvePublicKey: ours, curveSecretKey: secret });
}

/* Answer libzmq's questions: version, number, domain, address, identity, mechanism, key. */
async function answerForKeys(zap, expected) {
    for await (const [version, number, , , , , key] of zap) {
        const allowed = key !== undefined && expected.equals(key);
        await zap.send([version, number, ...(allowed ? ["200", "OK", "host"] : ["400", "no", ""]), ""]);
    }
}

/* --- the machine ------------------------------------------------------------------------------------------- */

class Robot {
    constructor(out, anySpeed) {
        this.out = out;
        this.anySpeed = anySpeed; // hardware knows only its own
        this.x = STATES.map(() => 0.0);
        this.u = ZERO;
        this.setup = { run: 0, src: 0 };
        this.running = false;
        this.src = nanoseconds() || 1; // this start of ours
        this.seq = 0; // number of our newest message
        this.sentAt = new Array(REMEMBERED).fill(-Infinity); // s, by number modulo REMEMBERED
        this.sent = Promise.resolve(); // a socket sends one message after the other
    }

    send(topic, setup, k, values) {
        const head = { t: k * setup.step, k, run: setup.run, src: this.src, seq: ++this.seq };
        this.sentAt[this.seq % REMEMBERED] = seconds();
        const message = encode({ ...head, mono: nanoseconds(), node: NAME, ...values });
        this.sent = this.sent.then(() => this.out.send([topic, message]));
    }

    publish() {
        const state = Object.fromEntries(STATES.map((name, i) => [name, this.x[i]]));
        const input = Object.fromEntries(INPUTS.map((name, i) => [name, this.u[i]]));
        this.send("state", this.setup, this.k, { state, input, control: false, applied_seq: this.taken });
    }

    receive(topic, payload) {
        const message = decode(payload, BOUNDS);
        const { run, src } = message;
        if (!Number.isInteger(run) || !Number.isInteger(src))
            return;
        if (topic === "setup")
            this.begin(message);
        else if (topic === "applied" && this.running && run === this.setup.run && src === this.setup.src)
            this.apply(message);
    }

    begin(setup) {
        if (this.running && setup.src !== this.setup.src && seconds() < this.fresh + this.timeout)
            return; // the host that began a run keeps it, to its end or its silence
        if (setup.src === this.setup.src && setup.seq < this.setup.seq && seconds() < this.fresh + this.timeout)
            return; // it was long under way: a newer run has begun
        if (setup.run !== this.setup.run) { // else it is asked for once more
            this.running = false;
            this.u = ZERO;
            const fault = this.misfit(setup);
            if (fault) {
                const step = Number.isFinite(setup.step) ? setup.step : 0;
                this.send("status", { ...setup, step }, 0, { lifecycle: "fault", fault, counts: {}, values: {} });
                return;
            }
            if (setup.k === 0) // a simulation starts there; hardware is where it is
                this.x = STATES.map((name) => setup.start[name]);
            this.timeout = Math.min(setup.timeout, MAX_TIMEOUT);
            this.limits = INPUTS.map((name) => Math.min(LIMITS[name], setup.limits[name] ?? LIMITS[name]));
            this.setup = setup;
            this.k = setup.k;
            this.taken = -1; // nothing taken yet
            this.began = this.fresh = seconds();
            this.running = true;
        }
        this.publish();
    }

    /* Why this machine takes no part in the run of that setup; empty: it does. */
    misfit({ machine, inputs, command = "effort", step, timeout, speed, mode, k, limits, parameters, start }) {
        if (machine !== NAME || !Array.isArray(inputs) || inputs.join() !== INPUTS.join())
            return `this is ${NAME} with the inputs ${INPUTS.join(", ")}`;
        if (command !== "effort")
            return 'this machine takes efforts; set plant.command = "effort"';
        const usable = 1e-5 <= step && step <= 1 && timeout > 0 && speed > 0 && speed <= MAX_SPEED;
        if (![step, timeout, speed].every(Number.isFinite) || !usable)
            return "step must be 1e-5 to 1 s, timeout and speed finite and positive, speed at most 1e6";
        const bounds = Object.values(limits); // of which comparisons would take a text for a number
        if (!bounds.every((each) => typeof each === "number" && each >= 0) || !Number.isInteger(k) || k < 0)
            return "limits must not be negative, and k must be a whole number of 0 or more";
        if (!PARAMETERS.every((name) => Number.isFinite(parameters[name])))
            return `this machine needs the parameters ${PARAMETERS.join(", ")}`;
        if (k === 0 && !STATES.every((name) => Number.isFinite(start[name])))
            return `this machine needs a start of ${STATES.join(", ")}`;
        if (mode === "realtime" && speed !== 1 && !this.anySpeed)
            return "this machine runs at speed 1; start it with --any-speed for other speeds";
        return ["realtime", "lockstep"].includes(mode) ? "" : "mode must be realtime or lockstep";
    }

    /* Whether we sent this state within the timeout: what answers an older one has waited in a broken network. */
    isRecent(seq) {
        const isKnown = Number.isInteger(seq) && seq > 0 && this.seq - REMEMBERED < seq && seq <= this.seq;
        return isKnown && seconds() < this.sentAt[seq % REMEMBERED] + this.timeout;
    }

    apply({ input, seq, k, until, final, state_seq: stateSeq }) {
        if (final) {
            this.running = false;
            this.u = ZERO;
            return;
        }
        const given = INPUTS.map((name) => input[name]);
        if (!given.every(Number.isFinite) || !Number.isInteger(seq)) // before the clamp, which would keep NaN
            return;
        const u = given.map((each, i) => Math.max(-this.limits[i], Math.min(this.limits[i], each)));
        if (this.setup.mode === "realtime") {
            if (seq > this.taken && this.isRecent(stateSeq))
                Object.assign(this, { u, taken: seq, fresh: seconds() });
            return;
        }
        this.fresh = seconds();
        if (k === this.k && Number.isInteger(until) && this.k < until && until <= this.k + MAX_STEPS) {
            Object.assign(this, { u, taken: seq });
            this.integrate(until);
        }
        if (until === this.k) // also if it was there already: then the last answer was lost
            this.publish();
    }

    integrate(until) {
        const h = this.setup.step, p = this.setup.parameters;
        const added = (a, part, b) => a.map((each, i) => each + part * b[i]);
        for (; this.k < until; this.k++) { // the classical Runge-Kutta method
            let slope = rates(this.x, this.u, p), total = slope;
            for (const [part, weight] of [[h / 2, 2], [h / 2, 2], [h, 1]]) {
                slope = rates(added(this.x, part, slope), this.u, p);
                total = added(total, weight, slope);
            }
            this.x = added(this.x, h / 6, total);
        }
    }

    /* In real time: go on to the present, and say where that is. */
    tick() {
        if (!this.running || this.setup.mode !== "realtime")
            return;
        const now = seconds(), safeAt = this.fresh + this.timeout; // then no fresh input has come
        for (const at of [Math.min(now, safeAt), now]) {
            this.integrate(this.setup.k + Math.floor(((at - this.began) * this.setup.speed) / this.setup.step));
            this.u = at < safeAt ? this.u : ZERO;
        }
        this.publish();
    }
}

/* --- the process ------------------------------------------------------------------------------------------- */

/* Where servonode looks without addresses in the launch file: sockets in a folder that nobody else may enter. */
function privateAddresses() {
    const uid = process.getuid(), runtime = process.env.XDG_RUNTIME_DIR ?? "";
    const found = path.isAbsolute(runtime) ? fs.statSync(runtime, { throwIfNoEntry: false }) : undefined;
    const ours = found !== undefined && found.isDirectory() && found.uid === uid;
    const usual = ours ? path.join(runtime, "servonode") : path.join(os.tmpdir(), `servonode-${uid}`);
    const base = process.env.SERVONODE_RUNTIME_DIR || usual, devices = path.join(base, "devices");
    for (const folder of [base, devices]) {
        try {
            fs.mkdirSync(folder, { mode: 0o700 });
        } catch (error) {
            if (error.code !== "EEXIST")
                throw error;
        }
        const made = fs.lstatSync(folder);
        if (made.uid !== uid || made.mode & 0o077)
            quit(`${folder} belongs to or is open to others; remove it`);
    }
    return [`ipc://${devices}/${NAME}.state`, `ipc://${devices}/${NAME}.applied`];
}

/* Remove our socket and, where they are empty, the folders that others may have used too. */
function leave(address) {
    const file = address.replace(/^ipc:\/\//, ""), devices = path.dirname(file);
    const shared = path.basename(devices) === "devices" ? [devices, path.dirname(devices)] : [];
    try {
        fs.unlinkSync(file);
        for (const folder of shared.slice(0, process.env.SERVONODE_RUNTIME_DIR ? 1 : 2))
            fs.rmdirSync(folder);
    } catch { // an address of tcp is no file, and folders that are not empty stay
    }
}

/* The two files behind --keys, if it is there. */
function keysOf(words) {
    const at = words.indexOf("--keys"), files = at < 0 ? [] : words.slice(at + 1, at + 3);
    if (at >= 0 && files.length !== 2)
        quit("--keys needs two files: OWN.key_secret HOST.key");
    return files;
}

/* Serve one run after the other. */
async function serve(words) {
    const given = words.filter((word) => word.includes("://")), keys = keysOf(words);
    const [stateAddress, appliedAddress] = given.length ? given : privateAddresses();
    const out = new zmq.Publisher({ linger: 0 }), into = new zmq.Subscriber({ linger: 0, maxMessageSize: 65536 });
    if (keys.length)
        await secure(out, into, ...keys);
    for (const signal of ["SIGINT", "SIGTERM"])
        process.on(signal, () => {
            leave(stateAddress);
            process.exit(0);
        });
    await out.bind(stateAddress); // publishers bind, subscribers connect
    into.connect(appliedAddress);
    into.subscribe(); // setup and applied
    const robot = new Robot(out, words.includes("--any-speed"));
    setInterval(() => robot.tick(), 1);
    for await (const frames of into) {
        try {
            if (frames.length === 2)
                robot.receive(frames[0].toString(), frames[1]);
        } catch (error) { // what is no message of ours is as if it had not come
            if (!(error instanceof TypeError || error instanceof RangeError || error.name === "DecodeError"))
                throw error;
        }
    }
}

serve(process.argv.slice(2));
