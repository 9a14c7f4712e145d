/* The hoop on its default profile, written by hand: midpoint steps and the rates.
 *
 * The yardstick of hoop.py. Formulas and signs: docs/systems/hoop_on_profile.md. U stands alone; the rolling gives Q in
 * R_x, R_z, which two equations then determine.
 */

#include <math.h>

enum { X, Z, THETA, VX, VZ, TURN, ALPHA, WORK, N_STATE };             /* the last entry in J */
enum { M, R, KAPPA, G, RATE, EPSILON, E_0 };                          /* parameters, in servonode's order */

typedef struct {
    double r, g, m, inv_m, inv_J, kr, rate, rate2, eps2, half_m, half_J, mg, E0;
} Hoop;

typedef struct { double x, z, theta, vx, vz, turn, alpha, power; } Rates;

static Hoop hoop(const double *p)
{
    const double J = p[KAPPA] * p[M] * p[R] * p[R];
    return (Hoop){
        .r = p[R], .g = p[G], .m = p[M], .inv_m = 1.0 / p[M], .inv_J = 1.0 / J, .kr = p[KAPPA] * p[R],
        .rate = p[RATE], .rate2 = p[RATE] * p[RATE], .eps2 = p[EPSILON] * p[EPSILON],
        .half_m = 0.5 * p[M], .half_J = 0.5 * J, .mg = p[M] * p[G], .E0 = p[E_0],
    };
}

static inline Rates rates(const Hoop *b, double x, double z, double vx, double vz, double turn, double alpha)
{
    const double c = cos(alpha), s = sin(alpha);
    const double q = x + b->r * c, q2 = q * q;
    /* h = p(q) - z_a: h_x = p', h_z = -1, h_xx = p'', the others 0 */
    const double h = q2 * (q2 + 0.13 * q - 0.5) - 0.13 * q - 0.5 - (z + b->r * s);
    const double hx = q * (4.0 * q2 + 0.39 * q - 1.0) - 0.13, hxx = 12.0 * q2 + 0.78 * q - 1.0;
    const double f2 = b->half_m * (vx * vx + vz * vz) + b->half_J * turn * turn + b->mg * z - b->E0;
    const double f3 = vz * c - vx * s + b->r * turn, f4 = hx * s + c;
    const double across = -hxx * vx * s;                      /* (v, H chi) */
    const double d = hx * c - s - b->r * hxx * s * s;
    const double U = (across - b->rate * f4) / d;
    const double contact = b->m * (-b->g - hxx * vx * vx - b->r * across * U
                                   - 2.0 * b->rate * (vx * hx - vz - b->r * U * f4) - b->rate2 * h);
    const double slip = b->m * (b->g * c - b->rate * f3 + U * (vx * c + vz * s));
    const double by = 1.0 / (turn * turn + b->eps2), k = turn * by, rest = b->eps2 * by * b->r;
    /* rows: hx Rx - Rz = contact; ax Rx + az Rz + Q = -rate f2 k; Q = kr (slip + s Rx - c Rz) */
    const double ax = k * vx + rest * s + b->kr * s, az = k * vz - rest * c - b->kr * c;
    const double energy = -b->rate * f2 * k - b->kr * slip;
    const double Rx = (energy + az * contact) / (ax + az * hx), Rz = hx * Rx - contact;
    const double Q = b->kr * (slip + s * Rx - c * Rz);
    return (Rates){ vx, vz, turn, Rx * b->inv_m, Rz * b->inv_m - b->g, Q * b->inv_J, U, Rx * vx + Rz * vz + Q * turn };
}

void rates_at(const double *x, const double *p, double *out)
{
    const Hoop b = hoop(p);
    const Rates k = rates(&b, x[X], x[Z], x[VX], x[VZ], x[TURN], x[ALPHA]);
    out[X] = k.x; out[Z] = k.z; out[THETA] = k.theta; out[VX] = k.vx;
    out[VZ] = k.vz; out[TURN] = k.turn; out[ALPHA] = k.alpha; out[WORK] = k.power;
}

/* n midpoint steps of h seconds */
void steps(long n, double *x, const double *p, double h)
{
    const Hoop b = hoop(p);
    const double half = 0.5 * h;
    double y[N_STATE];
    for (int i = 0; i < N_STATE; i++) y[i] = x[i];
    for (long i = 0; i < n; i++) {
        const Rates k = rates(&b, y[X], y[Z], y[VX], y[VZ], y[TURN], y[ALPHA]);
        const Rates m = rates(&b, y[X] + half * k.x, y[Z] + half * k.z, y[VX] + half * k.vx, y[VZ] + half * k.vz,
                              y[TURN] + half * k.turn, y[ALPHA] + half * k.alpha);
        y[X] += h * m.x; y[Z] += h * m.z; y[THETA] += h * m.theta; y[VX] += h * m.vx;
        y[VZ] += h * m.vz; y[TURN] += h * m.turn; y[ALPHA] += h * m.alpha; y[WORK] += h * m.power;
    }
    for (int i = 0; i < N_STATE; i++) x[i] = y[i];
}
