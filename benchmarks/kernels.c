/* The robot with trailer, written by hand: one Runge-Kutta step, and one evaluation of the pursuit law.
 *
 * The yardstick of kernels.py. Formulas and signs: docs/systems/diff_drive_trailer.md. The reduced mass matrix is
 * diagonal, so nothing is solved; what depends on parameters alone is computed once, in robot() and pursuit().
 */

#include <math.h>

enum { X, Y, PSI, PHI, V, OMEGA, THETA1, THETA2, WORK, N_STATE };            /* state; the last entry in J */
enum { PX, VX, AX, PY, VY, AY };                                             /* target: x, x', x'', y, y', y'' */
enum { M1, M_K, M2, I1, I2, IKY, IKZ, B, D1, L, R, C_W };                    /* parameters, in servonode's order */
enum { TORQUE1, TORQUE2, F_SPEED, F_HEADING, F_HEADING_RATE };               /* what the law returns */

typedef struct {
    double l, r, c_w, inv_b, inv_r, l_by_r, r_by_l; /* lengths and friction */
    double J1, inv_J1, j2, M0, kappa;               /* j2 = J2/b^2, kappa = m1 d1 */
} Robot;

typedef struct { double a, rho0, rho_min, rate_V, rate_h; } Pursuit;

typedef struct { double x, y, psi, phi, v, omega, theta1, theta2, power; } Rates;

static Robot robot(const double *p)
{
    const double spin = 2.0 * p[IKY] / (p[R] * p[R]);
    const double J1 = p[I1] + 2.0 * p[M_K] * p[L] * p[L] + 2.0 * p[IKZ] + spin * p[L] * p[L];
    return (Robot){
        .l = p[L], .r = p[R], .c_w = p[C_W], .inv_b = 1.0 / p[B], .inv_r = 1.0 / p[R],
        .l_by_r = p[L] / p[R], .r_by_l = p[R] / p[L],
        .J1 = J1, .inv_J1 = 1.0 / J1, .j2 = p[I2] / (p[B] * p[B]) - p[M2],
        .M0 = p[M1] + p[M2] + 2.0 * p[M_K] + spin, .kappa = p[M1] * p[D1],
    };
}

static inline Rates rates(const Robot *m, double psi, double phi, double v, double omega, double U1, double U2)
{
    const double s = sin(phi), c = cos(phi);
    const double phi_dot = -v * m->inv_b * s - omega;
    const double theta1 = (v - m->l * omega) * m->inv_r, theta2 = (v + m->l * omega) * m->inv_r;
    const double net1 = U1 - m->c_w * theta1, net2 = U2 - m->c_w * theta2;
    const double mass = m->M0 + m->j2 * s * s; /* Delta / b^2 */
    return (Rates){
        v * cos(psi), v * sin(psi), omega, phi_dot,
        (m->kappa * omega * omega - m->j2 * v * phi_dot * s * c + (net1 + net2) * m->inv_r) / mass,
        ((net2 - net1) * m->l_by_r - m->kappa * v * omega) * m->inv_J1,
        theta1, theta2, net1 * theta1 + net2 * theta2,
    };
}

static inline Rates rates_after(const Robot *m, const double *x, const Rates *k, double h, double U1, double U2)
{
    return rates(m, x[PSI] + h * k->psi, x[PHI] + h * k->phi, x[V] + h * k->v, x[OMEGA] + h * k->omega, U1, U2);
}

static inline void step(const Robot *m, double *x, double U1, double U2, double h)
{
    const Rates k0 = rates(m, x[PSI], x[PHI], x[V], x[OMEGA], U1, U2);
    const Rates k1 = rates_after(m, x, &k0, 0.5 * h, U1, U2);
    const Rates k2 = rates_after(m, x, &k1, 0.5 * h, U1, U2);
    const Rates k3 = rates_after(m, x, &k2, h, U1, U2);
    const double w = h / 6.0;
    x[X] += w * (k0.x + 2.0 * (k1.x + k2.x) + k3.x);
    x[Y] += w * (k0.y + 2.0 * (k1.y + k2.y) + k3.y);
    x[PSI] += w * (k0.psi + 2.0 * (k1.psi + k2.psi) + k3.psi);
    x[PHI] += w * (k0.phi + 2.0 * (k1.phi + k2.phi) + k3.phi);
    x[V] += w * (k0.v + 2.0 * (k1.v + k2.v) + k3.v);
    x[OMEGA] += w * (k0.omega + 2.0 * (k1.omega + k2.omega) + k3.omega);
    x[THETA1] += w * (k0.theta1 + 2.0 * (k1.theta1 + k2.theta1) + k3.theta1);
    x[THETA2] += w * (k0.theta2 + 2.0 * (k1.theta2 + k2.theta2) + k3.theta2);
    x[WORK] += w * (k0.power + 2.0 * (k1.power + k2.power) + k3.power);
}

static inline double wrapped(double angle)
{
    return angle - 6.283185307179586 * floor((angle + 3.141592653589793) * 0.15915494309189535);
}

/* Finite pursuit; 1 where the target is inside the guard radius. */
static inline int pursue(const Robot *m, const Pursuit *goal, const double *x, const double *y, double *out)
{
    const double dx = y[PX] - x[X], dy = y[PY] - x[Y];
    const double rho = sqrt(dx * dx + dy * dy), inv_rho = 1.0 / rho;
    const double e_x = dx * inv_rho, e_y = dy * inv_rho; /* unit vector along the bearing */
    const double e = wrapped(x[PSI] - atan2(dy, dx)), sin_e = sin(e), cos_e = cos(e);
    const double v_t = y[VX] * e_x + y[VY] * e_y, v_n = y[VY] * e_x - y[VX] * e_y;
    const double a_n = y[AY] * e_x - y[AX] * e_y;
    const double rho_dot = v_t - x[V] * cos_e, beta_dot = (v_n - x[V] * sin_e) * inv_rho;
    const double speed = x[V] - goal->a * (rho - goal->rho0), e_dot = x[OMEGA] - beta_dot;

    const double alpha_V = goal->a * rho_dot - goal->rate_V * speed;
    const double beta_ddot =
        (a_n - (v_t + rho_dot) * beta_dot - alpha_V * sin_e - x[V] * e_dot * cos_e) * inv_rho;
    const double alpha_O = beta_ddot - goal->rate_h * (2.0 * e_dot + goal->rate_h * e);

    const double s = sin(x[PHI]), c = cos(x[PHI]);
    const double phi_dot = -x[V] * m->inv_b * s - x[OMEGA];
    const double S = m->r * ((m->M0 + m->j2 * s * s) * alpha_V + m->j2 * x[V] * phi_dot * s * c
                             - m->kappa * x[OMEGA] * x[OMEGA]);
    const double D = m->r_by_l * (m->J1 * alpha_O + m->kappa * x[V] * x[OMEGA]);
    out[TORQUE1] = 0.5 * (S - D) + m->c_w * (x[V] - m->l * x[OMEGA]) * m->inv_r;
    out[TORQUE2] = 0.5 * (S + D) + m->c_w * (x[V] + m->l * x[OMEGA]) * m->inv_r;
    out[F_SPEED] = speed;
    out[F_HEADING] = e;
    out[F_HEADING_RATE] = e_dot;
    return !(rho > goal->rho_min);
}

/* x (9) advanced by n steps of h [s] under the held torques u (2). */
void steps(long n, double *x, const double *u, const double *p, double h)
{
    const Robot m = robot(p);
    for (long i = 0; i < n; i++)
        step(&m, x, u[0], u[1], h);
}

/* n evaluations at x + i dx; out (5) is the last one. Returns the sum of all torques. */
double laws(long n, const double *x, double dx, const double *y, const double *p, const double *goal, double *out)
{
    const Robot m = robot(p);
    const Pursuit g = {goal[0], goal[1], goal[2], goal[3], goal[4]};
    double at[N_STATE], sum = 0.0;
    for (int j = 0; j < N_STATE; j++)
        at[j] = x[j];
    for (long i = 0; i < n; i++) {
        for (int j = PSI; j <= OMEGA; j++)
            at[j] = x[j] + (double)i * dx;
        if (pursue(&m, &g, at, y, out))
            return NAN;
        sum += out[TORQUE1] + out[TORQUE2];
    }
    return sum;
}
