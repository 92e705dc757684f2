// Checks the arguments of a call against the table of a kernel's arguments, and starts the kernel.
//
// Takes the arguments and a `Kernel`, which Python wrote (native_call.py has the same structures). Invariant: starts
// only what bind() of arguments.py has accepted before with arguments of the same key, with other addresses and scalars;
// every other call takes the slow path, which also words the errors.
//
// No header is needed, and no function is linked: those of Python and torch come as addresses. Everything that a call
// changes is on the stack, so threads may call at once, also while a kernel runs or a device's queue is full.
//
// Source: Python/C API Reference, functions of the stable ABI; NumPy C-API, PyArrayObject; dlpack.h of DLPack 1.3,
// DLTensor and DLPackExchangeAPI.

typedef long long i64;
typedef unsigned long long u64;
typedef void *Object;

static struct Python {
    Object (*tuple_item)(Object, i64);
    Object (*new_list)(i64);
    int (*set_item)(Object, i64, Object);
    i64 (*tuple_size)(Object);
    i64 (*signed_value)(Object);
    u64 (*unsigned_value)(Object);
    double (*float_value)(Object);
    Object (*new_integer)(i64);
    Object (*error_occurred)();
    void (*clear_error)();
    Object (*call)(Object, Object, Object);
    Object (*call_objects)(Object, ...);
    int (*is_true)(Object);
    void (*increase)(Object);
    void (*decrease)(Object);
    void *(*release_lock)();
    void (*take_lock)(void *);
} python;

struct DlTensor {
    void *data;
    int device_kind, device;
    int rank;
    unsigned char code, bits;
    unsigned short lanes;
    i64 *shape, *strides;
    u64 byte_offset;
};

struct NumpyArray {  // behind the object's head
    void *data;
    int rank;
    i64 *shape, *strides;  // strides in bytes
    Object base, dtype;
    int flags;
};
enum NumpyFlag { C_CONTIGUOUS = 0x1, WRITEABLE = 0x400 };

enum Rule { CONSTANT, KEY, EQUAL };
struct Extent {
    i64 rule, value;
};

enum Kind { TENSOR, SIGNED, UNSIGNED, BOOL, FLOAT, POINTER };
struct ArgumentSpec {
    i64 kind;
    i64 slot;  // of the value
    i64 key;   // the entry of the key that the value is; 0 for none
    u64 alignment;  // of the address: a power of two
    i64 low;
    u64 high;
    // of a tensor
    i64 rank;
    i64 strided;      // the strides are declared; otherwise it must be dense
    i64 written;
    i64 negatable;    // may be of a view that negates
    i64 dlpack_dtype; // code, bits, lanes
    Object numpy_dtype;
    i64 element_bytes;
    Extent *extents;  // of the shape, then of declared strides
};

struct Allocation {
    i64 slot;
    Object function, args, keywords;
};

struct Plan {
    i64 *key;
    i64 (*start)(void *, const u64 *, void *);  // 0; below 0 to take the slow path; what `failed` takes
    void *state;
    Object failed;
    i64 first_symbol, symbol_count;
    u64 *symbols;
    i64 allocation_count, returned_count;
    Allocation *allocations;  // outputs, then workspaces
};

struct Kernel {
    int (*tensor_of)(Object, DlTensor *);
    int (*stream_of)(int, int, void **);  // null where tensors are in host memory
    i64 device_kind;
    i64 head_bytes;  // of an object; its type comes last
    Object array_type, tensor_types[2], integer_type, bool_type, float_type;
    i64 spec_count, key_size;
    i64 slots;  // of the table: a power of two, more than there are plans
    ArgumentSpec *specs;
    Plan **table;
};

enum Item { KERNEL, SLOW_PATH, IS_NEGATED, NOTHING };  // what `self` holds
enum { MAX_VALUES = 256, MAX_KEY = 256, MAX_ALLOCATIONS = 16 };
enum { LOCATION = 0, UNKNOWN = -1, NUMPY = -2 };  // the entry of the key that says where tensors are; otherwise a device

static u64 hash_of(const i64 *key, i64 size) {
    u64 hash = 0;
    for (i64 n = 0; n < size; n++) {
        hash = (hash ^ (u64)key[n]) * 0x9E3779B97F4A7C15ull;
        hash ^= hash >> 29;
    }
    return hash;
}

static bool same(const i64 *a, const i64 *b, i64 size) {
    for (i64 n = 0; n < size; n++)
        if (a[n] != b[n]) return false;
    return true;
}

// The slot of a key in the table: that of its plan, or a free one.
static Plan **slot_of(const Kernel *kernel, const i64 *key) {
    u64 mask = (u64)kernel->slots - 1, slot = hash_of(key, kernel->key_size) & mask;
    while (kernel->table[slot] && !same(kernel->table[slot]->key, key, kernel->key_size)) slot = (slot + 1) & mask;
    return &kernel->table[slot];
}

// Adds a plan to the table, which must have a free slot left afterwards.
extern "C" void tilelang_add_plan(const Kernel *kernel, Plan *plan) { *slot_of(kernel, plan->key) = plan; }

// Sets the table of Python's functions; called before anything else.
extern "C" void tilelang_prepare(const Python *functions) { python = *functions; }

static bool dense(const DlTensor &tensor) {
    i64 distance = 1;
    bool gaps = false;
    for (int axis = tensor.rank - 1; axis >= 0; axis--) {
        i64 extent = tensor.shape[axis];
        if (extent == 0) return true;
        if (extent != 1 && tensor.strides[axis] != distance) gaps = true;
        distance *= extent;
    }
    return !gaps;
}

static bool one_element(const DlTensor &tensor) {
    for (int axis = 0; axis < tensor.rank; axis++)
        if (tensor.shape[axis] != 1) return false;
    return true;
}

static bool is_negated(Object self, Object object) {
    Object answer = python.call_objects(python.tuple_item(self, IS_NEGATED), object, (Object)0);
    int negated = answer ? python.is_true(answer) : 1;
    if (answer) python.decrease(answer);
    return negated;
}

// Whether extents, or strides in units of so many bytes, match their rules; symbolic ones are stored in the key.
static bool match_extents(const Extent *rules, const i64 *given, int count, i64 unit, i64 *key) {
    for (int axis = 0; axis < count; axis++) {
        if (unit != 1 && given[axis] % unit) return false;
        i64 value = unit == 1 ? given[axis] : given[axis] / unit;
        const Extent &extent = rules[axis];
        if (extent.rule == KEY)
            key[extent.value] = value;
        else if (value != (extent.rule == CONSTANT ? extent.value : key[extent.value]))
            return false;
    }
    return true;
}

static bool misaligned(const ArgumentSpec &spec, u64 address) { return address & (spec.alignment - 1); }

static bool is_tensor(const Kernel *kernel, Object type) {
    return type == kernel->tensor_types[0] || type == kernel->tensor_types[1];
}

// Whether the kernel's tensors are all in one place.
static bool same_location(i64 location, i64 *key) {
    if (key[LOCATION] == UNKNOWN) key[LOCATION] = location;
    return key[LOCATION] == location;
}

static bool array(const Kernel *kernel, const ArgumentSpec &spec, Object object, i64 *key, u64 *address) {
    const NumpyArray &array = *(const NumpyArray *)((char *)object + kernel->head_bytes);
    *address = (u64)array.data;
    if (array.dtype != spec.numpy_dtype || array.rank != spec.rank || misaligned(spec, *address)) return false;
    if (spec.written && !(array.flags & WRITEABLE)) return false;
    if (!same_location(NUMPY, key) || !match_extents(spec.extents, array.shape, array.rank, 1, key)) return false;
    if (!spec.strided) return array.flags & C_CONTIGUOUS;
    return match_extents(spec.extents + array.rank, array.strides, array.rank, spec.element_bytes, key);
}

static bool tensor(const Kernel *kernel, const ArgumentSpec &spec, Object self, Object object, i64 *key, u64 *address) {
    DlTensor tensor;
    if (kernel->tensor_of(object, &tensor) || tensor.device_kind != kernel->device_kind) return false;
    *address = (u64)tensor.data + tensor.byte_offset;
    i64 dtype = tensor.code | tensor.bits << 8 | (i64)tensor.lanes << 16;
    if (dtype != spec.dlpack_dtype || tensor.rank != spec.rank || misaligned(spec, *address)) return false;
    if (!same_location(tensor.device, key) || !match_extents(spec.extents, tensor.shape, tensor.rank, 1, key)) return false;
    if (spec.strided ? !match_extents(spec.extents + tensor.rank, tensor.strides, tensor.rank, 1, key) : !dense(tensor))
        return false;
    return !spec.negatable || !(spec.strided || one_element(tensor)) || !is_negated(self, object);
}

// The bits of a number; false if it is none, or out of the range of its type.
static bool number(const Kernel *kernel, const ArgumentSpec &spec, Object object, Object type, u64 *bits) {
    if (spec.kind == FLOAT) {
        if (type != kernel->float_type && type != kernel->integer_type) return false;
        double value = python.float_value(object);
        if (value == -1.0 && python.error_occurred()) return false;
        __builtin_memcpy(bits, &value, 8);
        return true;
    }
    if (type != (spec.kind == BOOL ? kernel->bool_type : kernel->integer_type)) return false;
    if (spec.kind == UNSIGNED) {
        u64 value = python.unsigned_value(object);
        if (value == ~0ull && python.error_occurred()) return false;
        *bits = value;
        return value <= spec.high;
    }
    i64 value = python.signed_value(object);
    if (value == -1 && python.error_occurred()) return false;
    *bits = (u64)value;
    return value >= spec.low && value <= (i64)spec.high;
}

// The address that a number or a tensor stands for; a tensor without extents stands for its value.
static bool pointer(const Kernel *kernel, const ArgumentSpec &spec, Object object, Object type, i64 *key, u64 *address) {
    if (!is_tensor(kernel, type)) {
        if (!number(kernel, spec, object, type, address)) return false;
    } else {
        DlTensor tensor;
        if (kernel->tensor_of(object, &tensor) || tensor.device_kind != kernel->device_kind) return false;
        if (!tensor.rank || (kernel->stream_of && !same_location(tensor.device, key))) return false;
        *address = (u64)tensor.data + tensor.byte_offset;
    }
    return *address && !misaligned(spec, *address);
}

static Object type_of(const Kernel *kernel, Object object) {
    return *(Object *)((char *)object + kernel->head_bytes - sizeof(Object));
}

// Whether an argument satisfies its spec; stores its value.
static bool accepts(const Kernel *kernel, const ArgumentSpec &spec, Object self, Object object, i64 *key, u64 *value) {
    Object type = type_of(kernel, object);
    if (spec.kind == POINTER) return pointer(kernel, spec, object, type, key, value);
    if (spec.kind != TENSOR) return number(kernel, spec, object, type, value);
    if (type == kernel->array_type) return array(kernel, spec, object, key, value);
    return is_tensor(kernel, type) && tensor(kernel, spec, self, object, key, value);
}

static Object slow_path(Object self, Object args) {
    python.clear_error();
    return python.call_objects(python.tuple_item(self, SLOW_PATH), args, (Object)0);
}

// A new array and where it lies; null, with Python's error set, if there is no memory.
static Object make(const Kernel *kernel, const Allocation &allocation, u64 *address) {
    Object made = python.call(allocation.function, allocation.args, allocation.keywords);
    if (!made) return 0;
    if (type_of(kernel, made) == kernel->array_type) {
        *address = (u64)((const NumpyArray *)((char *)made + kernel->head_bytes))->data;
        return made;
    }
    DlTensor tensor;
    if (kernel->tensor_of(made, &tensor)) {
        python.decrease(made);
        return 0;
    }
    *address = (u64)tensor.data + tensor.byte_offset;
    return made;
}

// What a call returns, out of the outputs that it made.
static Object returned(Object self, const Object *made, i64 count) {
    Object result = count == 1 ? made[0] : python.tuple_item(self, NOTHING);
    if (count < 2) {
        python.increase(result);
        return result;
    }
    result = python.new_list(count);
    for (i64 n = 0; result && n < count; n++) {
        python.increase(made[n]);
        python.set_item(result, n, made[n]);
    }
    return result;
}

// Starts a plan with the arguments' values, to which those of outputs, workspaces and symbols are added.
static Object run(const Kernel *kernel, const Plan *plan, Object self, Object args, u64 *values) {
    Object made[MAX_ALLOCATIONS], result = 0;
    i64 count = 0, answer = 0;
    void *stream = 0;
    for (; count < plan->allocation_count; count++) {
        const Allocation &allocation = plan->allocations[count];
        made[count] = make(kernel, allocation, &values[allocation.slot]);
        if (!made[count]) goto end;
    }
    __builtin_memcpy(values + plan->first_symbol, plan->symbols, (u64)plan->symbol_count * sizeof(u64));
    if (kernel->stream_of && kernel->stream_of((int)kernel->device_kind, (int)plan->key[LOCATION], &stream)) {
        answer = -1;
    } else {
        void *thread = python.release_lock();
        answer = plan->start(plan->state, values, stream);
        python.take_lock(thread);
    }
    if (answer < 0) {
        result = slow_path(self, args);
    } else if (answer) {
        Object status = python.new_integer(answer);
        if (status) result = python.call_objects(plan->failed, status, (Object)0);
        if (status) python.decrease(status);
    } else {
        result = returned(self, made, plan->returned_count);
    }
end:
    while (count) python.decrease(made[--count]);
    return result;
}

// A function of Python, of the kind METH_VARARGS.
extern "C" Object tilelang_call(Object self, Object args) {
    const Kernel *kernel = (const Kernel *)python.unsigned_value(python.tuple_item(self, KERNEL));
    if (python.tuple_size(args) != kernel->spec_count) return slow_path(self, args);
    u64 values[MAX_VALUES];
    i64 key[MAX_KEY];
    key[LOCATION] = UNKNOWN;
    for (i64 n = 0; n < kernel->spec_count; n++) {
        const ArgumentSpec &spec = kernel->specs[n];
        Object object = python.tuple_item(args, n);
        if (!accepts(kernel, spec, self, object, key, &values[spec.slot])) return slow_path(self, args);
        if (spec.key) key[spec.key] = (i64)values[spec.slot];
    }
    const Plan *plan = *slot_of(kernel, key);
    return plan ? run(kernel, plan, self, args, values) : slow_path(self, args);
}
