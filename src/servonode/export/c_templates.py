"""C texts of the functions around the kernels, in parts that are put together in `c_controller`."""

CLAMPED = """\
static double clamped(double value, double least, double most)
{
    const double above = least > value ? least : value;
    return most < above ? most : above;
}"""

SAFE = """\
    int i, finite = 1;
{inputs}
    for (i = 0; i < SERVONODE_N_INPUTS; i++)
        finite = finite && isfinite(u[i]);
    for (i = 0; i < SERVONODE_N_INPUTS; i++)
        u[i] = clamped(finite ? u[i] : 0.0, -most_input[i], most_input[i]);
"""
NO_SAFE_ACTION = """\
    (void)t;
    (void)x;
    for (i = 0; i < SERVONODE_N_INPUTS; i++)
        u[i] = 0.0;"""

LIMIT = """\
    double asked[SERVONODE_N_INPUTS], rates[SERVONODE_N_INPUTS] = {{0}};
    long long counts[{counts}] = {{0}};
    int i, changed = 0;
    {rates}
    for (i = 0; i < SERVONODE_N_INPUTS; i++)
        asked[i] = u[i];
    if ({limit}(u, before, {elapsed}, most_input, {power}, rates, counts) >= 0) {{
        {safe}(t, x, u);
        return -2;
    }}
    for (i = 0; i < SERVONODE_N_INPUTS; i++)
        changed = changed || u[i] != asked[i];
    return changed;
"""

LATE = """\
/* Scale inputs that have waited, so that their power at the state x is within the limit. */
static void limit_late(double t, const double *x, double *u)
{{
    double rates[SERVONODE_N_INPUTS];
    long long counts[{counts}] = {{0}};
    {rates}
    limit_power(u, {power}, rates, counts);
}}"""

CONSTANTS = """\
    for (i = 0; i < {n}; i++)
        y[{first} + i] = {values}[i];
"""

START = """\
    static const struct {prefix}_controller begun = {{0}};
    *self = begun;
"""
INITIAL_STATES = """\
    for (i = 0; i < {memory}; i++)
        self->memory[i] = law_memory[i];
    for (i = 0; i < {own}; i++)
        self->y[{first} + i] = law_memory[i];
"""

UPDATE = """\
    int i, status = self->status;
    for (i = 0; i < SERVONODE_N_STATE; i++)
        status = status == 0 && !isfinite(x[i]) ? -2 : status;
{goal}
    if (status == 0) {{
{follow}
        status = {law};{crossing}
    }}
    for (i = 0; i < SERVONODE_N_INPUTS; i++)
        u[i] = self->out[i];
{soft}
    if (status == 0 && {prefix}_limit(t, x, self->newest, u) < 0)
        status = -2;
    self->status = status;
    if (status != 0) {{
        {prefix}_safe(t, x, u);
        return status;
    }}
{integrals}
{act}
    return 0;
"""
GOAL = """\
    for (i = 0; i < SERVONODE_N_GOAL; i++) {
        self->y[i] = y[i];
        status = status == 0 && !isfinite(y[i]) ? -2 : status;
    }"""
NO_GOAL = "    (void)y;"
FOLLOW = """\
        const double passed = self->begun ? t - self->followed : 0.0;
        {follow};
        self->followed = t;
        self->begun = 1;"""
CROSSING = """
        if (status == 0 && self->out[{at}]*self->determinant < 0.0)
            status = -3; /* det W has changed its sign since the last update: it was 0 between */
        self->determinant = self->out[{at}];"""
SOFT_START = """\
    self->passed += self->passed <= {longest};{ramp}{arming}"""
RAMP = """
    if (self->passed < {ramp}) {{
        const double share = (double)self->passed/{ramp};
        for (i = 0; i < SERVONODE_N_INPUTS; i++)
            u[i] *= share*share;
    }}"""
ARMING = """
    for (i = 0; i < SERVONODE_N_INPUTS && self->passed <= {periods}; i++)
        u[i] = clamped(u[i], -most_arming[i], most_arming[i]);"""
INTEGRALS = """\
    for (i = 0; i < SERVONODE_N_RESIDUALS; i++)
        self->y[{first} + i] += SERVONODE_PERIOD_S*self->out[SERVONODE_N_INPUTS + i];"""
AT_ONCE = """\
    for (i = 0; i < SERVONODE_N_INPUTS; i++)
        self->newest[i] = u[i];"""
LATER = """\
    for (i = 0; i < SERVONODE_N_INPUTS; i++) {
        self->newest[i] = u[i];
        u[i] = self->waiting[self->oldest][i];
        self->waiting[self->oldest][i] = self->newest[i];
    }
    self->oldest = (self->oldest + 1)%SERVONODE_DELAY;"""
POWER_AGAIN = "\n    limit_late(t, x, u); /* the machine has moved on since they were decided */"
