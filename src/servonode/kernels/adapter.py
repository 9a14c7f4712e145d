"""The call of a kernel from Python: METH_FASTCALL with a descriptor as self.

A descriptor is a list of words of 8 bytes:
    0 address of the entry           1 number of arguments        2 result: 0 nothing, 1 f64, 2 i64, 3 bool
    3 a Python function that is called with the arguments where one does not fit
    4 type of arrays                 5 the dtype of f64           6 the dtype of i64
and for each argument: kind (0 f64, 1 i64, 2 bool, 3 array of f64, 4 array of i64), flags that an array must have,
number of lengths, three lengths (-1: any).
The kernel runs without the interpreter's lock.
"""

ADAPTER_TEXT = """\
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare i32 @PyObject_IsTrue(ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyBool_FromLong(i64)
declare ptr @Py_BuildValue(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

@nothing = private unnamed_addr constant [1 x i8] zeroinitializer

define ptr @adapter(ptr %self, ptr %given, i64 %count) {
begin:
  %words = call ptr @PyLong_AsVoidPtr(ptr %self)
  %count_at = getelementptr inbounds i64, ptr %words, i64 1
  %wanted = load i64, ptr %count_at
  %as_many = icmp eq i64 %count, %wanted
  br i1 %as_many, label %reserve, label %unfit

reserve:
  %slots = alloca i64, i64 %count, align 16
  br label %arguments

arguments:
  %i = phi i64 [ 0, %reserve ], [ %next, %taken ]
  %done = icmp eq i64 %i, %count
  br i1 %done, label %call, label %argument

argument:
  %object_at = getelementptr inbounds ptr, ptr %given, i64 %i
  %object = load ptr, ptr %object_at
  %slot = getelementptr inbounds i64, ptr %slots, i64 %i
  %offset6 = mul i64 %i, 6
  %offset = add i64 %offset6, 7
  %argument_at = getelementptr inbounds i64, ptr %words, i64 %offset
  %kind = load i64, ptr %argument_at
  switch i64 %kind, label %array [ i64 0, label %float
                                   i64 1, label %whole
                                   i64 2, label %truth ]

float:
  %f = call double @PyFloat_AsDouble(ptr %object)
  store double %f, ptr %slot
  %f_odd = fcmp oeq double %f, -1.0
  br i1 %f_odd, label %check, label %taken

whole:
  %w = call i64 @PyLong_AsLongLong(ptr %object)
  store i64 %w, ptr %slot
  %w_odd = icmp eq i64 %w, -1
  br i1 %w_odd, label %check, label %taken

truth:
  %b = call i32 @PyObject_IsTrue(ptr %object)
  %b64 = sext i32 %b to i64
  store i64 %b64, ptr %slot
  %b_odd = icmp slt i32 %b, 0
  br i1 %b_odd, label %check, label %taken

check:
  %raised = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %raised, null
  br i1 %fine, label %taken, label %failed

array:
  %type_at = getelementptr inbounds i64, ptr %object, i64 1
  %type = load ptr, ptr %type_at
  %array_type_at = getelementptr inbounds i64, ptr %words, i64 4
  %array_type = load ptr, ptr %array_type_at
  %is_array = icmp eq ptr %type, %array_type
  br i1 %is_array, label %entries, label %unfit

entries:
  %dtype_index = add i64 %kind, 2
  %dtype_wanted_at = getelementptr inbounds i64, ptr %words, i64 %dtype_index
  %dtype_wanted = load ptr, ptr %dtype_wanted_at
  %dtype_at = getelementptr inbounds i64, ptr %object, i64 7
  %dtype = load ptr, ptr %dtype_at
  %same_dtype = icmp eq ptr %dtype, %dtype_wanted
  br i1 %same_dtype, label %memory, label %unfit

memory:
  %flags_at = getelementptr inbounds i64, ptr %object, i64 8
  %flags = load i32, ptr %flags_at
  %flags_wanted_at = getelementptr inbounds i64, ptr %argument_at, i64 1
  %flags_wanted = load i32, ptr %flags_wanted_at
  %flags_had = and i32 %flags, %flags_wanted
  %all_flags = icmp eq i32 %flags_had, %flags_wanted
  br i1 %all_flags, label %shape, label %unfit

shape:
  %n_at = getelementptr inbounds i64, ptr %object, i64 3
  %n = load i32, ptr %n_at
  %n_wanted_at = getelementptr inbounds i64, ptr %argument_at, i64 2
  %n_wanted = load i32, ptr %n_wanted_at
  %same_n = icmp eq i32 %n, %n_wanted
  br i1 %same_n, label %lengths, label %unfit

lengths:
  %lengths_at = getelementptr inbounds i64, ptr %object, i64 4
  %lengths_of = load ptr, ptr %lengths_at
  %n64 = zext i32 %n to i64
  br label %length

length:
  %j = phi i64 [ 0, %lengths ], [ %j_next, %length_fits ]
  %all_lengths = icmp eq i64 %j, %n64
  br i1 %all_lengths, label %address, label %one_length

one_length:
  %length_at = getelementptr inbounds i64, ptr %lengths_of, i64 %j
  %one = load i64, ptr %length_at
  %one_wanted_index = add i64 %j, 3
  %one_wanted_at = getelementptr inbounds i64, ptr %argument_at, i64 %one_wanted_index
  %one_wanted = load i64, ptr %one_wanted_at
  %one_open = icmp slt i64 %one_wanted, 0
  %one_same = icmp eq i64 %one, %one_wanted
  %one_fits = or i1 %one_open, %one_same
  br i1 %one_fits, label %length_fits, label %unfit

length_fits:
  %j_next = add i64 %j, 1
  br label %length

address:
  %data_at = getelementptr inbounds i64, ptr %object, i64 2
  %data = load i64, ptr %data_at
  store i64 %data, ptr %slot
  br label %taken

taken:
  %next = add i64 %i, 1
  br label %arguments

call:
  %entry = load ptr, ptr %words
  %thread = call ptr @PyEval_SaveThread()
  %bits = call i64 %entry(ptr %slots)
  call void @PyEval_RestoreThread(ptr %thread)
  %result_at = getelementptr inbounds i64, ptr %words, i64 2
  %result = load i64, ptr %result_at
  switch i64 %result, label %give_nothing [ i64 1, label %give_float
                                            i64 2, label %give_whole
                                            i64 3, label %give_truth ]

give_nothing:
  %none = call ptr @Py_BuildValue(ptr @nothing)
  ret ptr %none

give_float:
  %value = bitcast i64 %bits to double
  %as_float = call ptr @PyFloat_FromDouble(double %value)
  ret ptr %as_float

give_whole:
  %as_whole = call ptr @PyLong_FromLongLong(i64 %bits)
  ret ptr %as_whole

give_truth:
  %as_truth = call ptr @PyBool_FromLong(i64 %bits)
  ret ptr %as_truth

unfit:
  %explain_at = getelementptr inbounds i64, ptr %words, i64 3
  %explain = load ptr, ptr %explain_at
  %never = call ptr @PyObject_Vectorcall(ptr %explain, ptr %given, i64 %count, ptr null)
  ret ptr %never

failed:
  ret ptr null
}
"""
