"""What the texts of this folder may use beside Python, as type checkers are to know it."""

from typing import Any, Generic, SupportsIndex, TypeVarTuple

_Sizes = TypeVarTuple("_Sizes")

class f64(Generic[*_Sizes]):
    """An array of numbers, by its sizes; with fewer indices than sizes a row of it."""

    def __getitem__(self, at: SupportsIndex | tuple[int, ...]) -> Any: ...
    def __setitem__(self, at: SupportsIndex | tuple[int, ...], value: float) -> None: ...

class i64(Generic[*_Sizes]):
    """An array of whole numbers, by its sizes."""

    def __getitem__(self, at: SupportsIndex | tuple[int, ...]) -> Any: ...
    def __setitem__(self, at: SupportsIndex | tuple[int, ...], value: int) -> None: ...

def fabs(value: float) -> float: ...
def floor(value: float) -> float: ...
def isfinite(value: float) -> bool: ...
def rint(value: float) -> float: ...
def sqrt(value: float) -> float: ...
def empty(*sizes: Any) -> Any: ...  # a new array of numbers, whose entries are not set
def add_shared(entry: Any, value: int) -> int: ...  # at once for all threads; what the entry was before
def swap_shared(entry: Any, value: int) -> int: ...  # the same

class Size(type, int):  # type: ignore[misc]
    """The type of sizes, which stand in types of arrays and, as whole numbers, in expressions."""

any_size = Any  # the first size of an array that may have any

class n_tau(metaclass=Size): ...  # the inputs of a machine
class n_state(metaclass=Size): ...  # the states of a machine, its coordinates and velocities
class n_z(metaclass=Size): ...  # the sensors of a machine
class n_x(metaclass=Size): ...  # the states, and the work
class n_counts(metaclass=Size): ...  # one count for each input's value and rate, one for power, one for all
class bounded(metaclass=Size): ...  # the rows of the limits: value, rate
class drive_rows(metaclass=Size): ...  # the rows of the drives' numbers
class error_rows(metaclass=Size): ...  # the rows of the sensors' numbers
class believed_rows(metaclass=Size): ...  # the rows of what a plausible reading keeps
class one(metaclass=Size): ...  # a single number that a function writes
class n_constants(metaclass=Size): ...  # what a machine computes from its parameters alone
class n_c_believed(metaclass=Size): ...  # the same of the machine that a law assumes
class n_c_law(metaclass=Size): ...  # what a law computes from its parameters alone
class n_y(metaclass=Size): ...  # the entries of a goal, with what a controller keeps
class n_targets(metaclass=Size): ...  # targets with their derivatives
class n_signals(metaclass=Size): ...  # signals with their derivatives
class n_out(metaclass=Size): ...  # the entries of a law's answer
class n_s(metaclass=Size): ...  # the residuals of a law
class n_gains(metaclass=Size): ...  # the matrices of gains: of the residuals, their rates, their integrals
class n_own(metaclass=Size): ...  # the states of a program itself
class n_memory(metaclass=Size): ...  # the same with their rates
class n_integrals(metaclass=Size): ...  # the integrals of residuals that are fed back
class n_recorded(metaclass=Size): ...  # what is recorded of an answer
class n_row(metaclass=Size): ...  # the columns of a plant's record
class n_answer(metaclass=Size): ...  # the columns of a controller's record
class n_progress(metaclass=Size): ...  # how far a run is: step, rows, answers
class n_run_state(metaclass=Size): ...  # what an imperfect run goes on with
class n_goal(metaclass=Size): ...  # targets and signals with their derivatives
class n_columns(metaclass=Size): ...  # what reward and conditions of an environment may use
class n_observed(metaclass=Size): ...  # what an environment observes
class n_waiting(metaclass=Size): ...  # the inputs of an environment that wait, and those that act
class n_shown(metaclass=Size): ...  # the states that an environment's sensors have not yet shown, and the newest
class n_pipe(metaclass=Size): ...  # the steps by which drives are late
class n_goals(metaclass=Size): ...  # the scaled residuals, which are kept as well as limits and rows allow
class n_rows(metaclass=Size): ...  # the rows that inputs must keep
class n_work(metaclass=Size): ...  # what threads share

# where parts of arrays begin
targets_at: int
signals_at: int
states_at: int
integrals_at: int
residuals_at: int
recorded_at: int
determinant_at: int
keeping_at: int
row_step: int
row_x: int
row_inputs: int
answer_step: int
answer_recorded: int
answer_states: int

# what a machine, a law and a run have; what they exclude is not compiled
watched: bool  # faults end a run
follows: bool  # the program has states of its own
tells_crossings: bool  # the law tells where its determinant is 0
keeps: bool  # the law keeps rows or limits
imperfect: bool  # drives, sensors or limits change what is demanded or measured
has_law: bool  # an environment's reward or conditions use residuals
slewed: bool  # rates may be limited
powered: bool  # power may be limited

class n_nodes(metaclass=Size): ...  # the bodies of a tree, each moved by one joint, with the ground
class n_two(metaclass=Size): ...  # two for each of them
class n_axes(metaclass=Size): ...  # three
class n_pose(metaclass=Size): ...  # the entries of a rotation, then of a place
class n_poses(metaclass=Size): ...  # the links and frames of a tree
class n_placed(metaclass=Size): ...  # place, rotation and body of one of them
class n_inertia(metaclass=Size): ...  # mass, first moments, second moments
class n_nine(metaclass=Size): ...  # nine for each of them
class n_motions(metaclass=Size): ...  # the degrees of freedom of its joints
