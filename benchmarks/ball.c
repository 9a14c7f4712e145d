/* A ball on a turning plate, written by hand: Runge-Kutta steps of position, angular velocity and quaternion.
 *
 * The yardstick of ball.py. Formulas and signs: docs/systems/ball_on_turntable.md. What depends on parameters alone is
 * computed once, in plate(). The work of the friction force is integrated too, and each step ends with one step of
 * Newton's method for |q| = 1, as it does in servonode.
 */

enum { X, Y, VX, VY, W1, W2, W3, Q0, Q1, Q2, Q3, WORK, N_STATE };   /* state; the last entry in J */
enum { M, A, J, OMEGA, G_X, G_Y, K1, K2, K3, K4 };                  /* parameters, in servonode's order */

typedef struct {
    double a, Omega, gx, gy, k1, k2, k3, k4;
    double ms, inv_m, a_by_J; /* reduced mass m J / (J + m a^2) */
} Plate;

typedef struct { double x, y, vx, vy, w1, w2, q0, q1, q2, q3, power; } Rates;

static Plate plate(const double *p)
{
    return (Plate){
        .a = p[A], .Omega = p[OMEGA], .gx = p[G_X], .gy = p[G_Y], .k1 = p[K1], .k2 = p[K2], .k3 = p[K3], .k4 = p[K4],
        .ms = p[M] * p[J] / (p[J] + p[M] * p[A] * p[A]), .inv_m = 1.0 / p[M], .a_by_J = p[A] / p[J],
    };
}

static inline Rates rates(const Plate *p, double x, double y, double vx, double vy, double w1, double w2, double w3,
                          double q0, double q1, double q2, double q3)
{
    const double ux = vx - p->a * w2, uy = vy + p->a * w1; /* the ball's point in the contact */
    const double f1 = ux + p->Omega * y, f2 = uy - p->Omega * x;
    const double Fx = p->ms * (p->k1 * f1 + p->k2 * f2 - p->gx - p->Omega * vy);
    const double Fy = p->ms * (p->k3 * f1 + p->k4 * f2 - p->gy + p->Omega * vx);
    const double h1 = 0.5 * w1, h2 = 0.5 * w2, h3 = 0.5 * w3;
    return (Rates){
        vx, vy, Fx * p->inv_m + p->gx, Fy * p->inv_m + p->gy, p->a_by_J * Fy, -p->a_by_J * Fx,
        -h1 * q1 - h2 * q2 - h3 * q3, h1 * q0 + h2 * q3 - h3 * q2,
        h2 * q0 + h3 * q1 - h1 * q3, h3 * q0 + h1 * q2 - h2 * q1,
        Fx * ux + Fy * uy,
    };
}

static inline Rates rates_after(const Plate *p, const double *x, const Rates *k, double h)
{
    return rates(p, x[X] + h * k->x, x[Y] + h * k->y, x[VX] + h * k->vx, x[VY] + h * k->vy, x[W1] + h * k->w1,
                 x[W2] + h * k->w2, x[W3], x[Q0] + h * k->q0, x[Q1] + h * k->q1, x[Q2] + h * k->q2, x[Q3] + h * k->q3);
}

static inline void step(const Plate *p, double *x, double h)
{
    const Rates k0 = rates(p, x[X], x[Y], x[VX], x[VY], x[W1], x[W2], x[W3], x[Q0], x[Q1], x[Q2], x[Q3]);
    const Rates k1 = rates_after(p, x, &k0, 0.5 * h);
    const Rates k2 = rates_after(p, x, &k1, 0.5 * h);
    const Rates k3 = rates_after(p, x, &k2, h);
    const double w = h / 6.0;
    x[X] += w * (k0.x + 2.0 * (k1.x + k2.x) + k3.x);
    x[Y] += w * (k0.y + 2.0 * (k1.y + k2.y) + k3.y);
    x[VX] += w * (k0.vx + 2.0 * (k1.vx + k2.vx) + k3.vx);
    x[VY] += w * (k0.vy + 2.0 * (k1.vy + k2.vy) + k3.vy);
    x[W1] += w * (k0.w1 + 2.0 * (k1.w1 + k2.w1) + k3.w1);
    x[W2] += w * (k0.w2 + 2.0 * (k1.w2 + k2.w2) + k3.w2);
    x[Q0] += w * (k0.q0 + 2.0 * (k1.q0 + k2.q0) + k3.q0);
    x[Q1] += w * (k0.q1 + 2.0 * (k1.q1 + k2.q1) + k3.q1);
    x[Q2] += w * (k0.q2 + 2.0 * (k1.q2 + k2.q2) + k3.q2);
    x[Q3] += w * (k0.q3 + 2.0 * (k1.q3 + k2.q3) + k3.q3);
    x[WORK] += w * (k0.power + 2.0 * (k1.power + k2.power) + k3.power);
    const double norm = x[Q0] * x[Q0] + x[Q1] * x[Q1] + x[Q2] * x[Q2] + x[Q3] * x[Q3];
    const double correction = 1.0 - 0.5 * (norm - 1.0) / norm;
    x[Q0] *= correction;
    x[Q1] *= correction;
    x[Q2] *= correction;
    x[Q3] *= correction;
}

void steps(long n, double *x, const double *parameters, double h)
{
    const Plate p = plate(parameters);
    for (long i = 0; i < n; i++)
        step(&p, x, h);
}
