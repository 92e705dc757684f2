// The shortest way from torch tensors to launches: what `call` of a kernel does when nothing is new.
//
// Takes the arguments of a call and a `Kernel`, which Python wrote (native_call.py has the same structures). Invariant:
// launches only what the long way has launched before with arguments of the same sizes on the same device, with other
// addresses and scalars; whatever it does not recognize goes the long way, which also words every error.
//
// No header is needed, and no function is linked: those of Python, torch and the driver come as addresses. Everything
// that a call changes is on the stack, so threads may call at once, also while one of them waits for the driver.
//
// Source: Python/C API Reference, functions of the stable ABI; dlpack.h of DLPack 1.3, DLTensor and
// DLPackExchangeAPI; CUDA Driver API, CUlaunchConfig, cuLaunchKernelEx,
// cuTensorMapEncodeTiled and cuCtxGetCurrent.

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

struct Tensor {
    void *data;
    int device_kind, device;
    int rank;
    unsigned char code, bits;
    unsigned short lanes;
    i64 *shape, *strides;
    u64 byte_offset;
};

struct Config {
    unsigned grid[3], threads[3], shared_bytes;
    void *stream;
    void *attributes;
    unsigned attribute_count;
};

enum Rule { EXACT, FRESH, SAME };  // is a value; is the next part of the key; is that part of the key
struct Extent {
    i64 rule, value;
};

enum Kind { TENSOR, SIGNED, UNSIGNED, BOOL, FLOAT32, FLOAT64, POINTER };
struct Input {
    i64 kind;
    i64 dtype;     // code, bits, lanes
    i64 rank;
    i64 strided;   // the strides are declared; otherwise the tensor is dense
    i64 negatable; // of a type of which there are views that negate
    i64 keyed;     // a scalar whose value is part of the key
    i64 low;
    u64 high;
    Extent *extents;  // of the shape, then of declared strides
};

struct Argument {
    i64 source, offset, size_bytes;
};

// A tensor map among the arguments: it says where a tensor is, so it is encoded anew where that changes.
struct Map {
    i64 source, offset;
    u64 address;  // for which `arguments` holds it
    u64 *dims, *strides;
    unsigned *box, *steps, rank;
    int dtype, interleaved, swizzle, promotion, outside;
};

struct Launch {
    Config *config;
    void *function;
    char *arguments;       // with the values that no call changes
    i64 argument_bytes, argument_count, filled_count, map_count;
    i64 *offsets;          // of all arguments
    Argument *filled;      // those that every call fills in
    Map *maps;
    Object name;
};

struct Recipe {
    Object args, keywords;
};

struct Plan {
    i64 *key;
    void *context;
    volatile int *failure;
    i64 launch_count, made_count, returned_count;
    Launch *launches;
    Recipe *made;  // outputs, then workspaces
};

struct Kernel {
    int (*tensor_of)(Object, Tensor *);
    int (*stream_of)(int, int, void **);
    int (*context_of)(void **);
    int (*launch)(Config *, void *, void **, void **);
    int (*encode)(void *, int, unsigned, void *, const u64 *, const u64 *, const unsigned *, const unsigned *, int, int,
                  int, int);
    i64 device_kind;
    i64 type_offset;  // of the type within an object
    Object tensor_types[2];
    Object integer_type, bool_type, float_type;
    i64 input_count, key_size;
    i64 slots;  // of the table: a power of two, more than there are plans
    Input *inputs;
    Plan **table;
};

// what `self` holds
enum Item { KERNEL, LONG_WAY, FAILED, EMPTY, IS_NEGATED, NOTHING };

enum { MAX_INPUTS = 64, MAX_KEY = 256, MAX_MADE = 16, MAX_ARGUMENTS = 192, MAX_BYTES = 4096 };
enum { MAP_ALIGNMENT = 64 };
enum { VECTOR_BYTES = 16 };  // what programs rely on: the widest access of a thread

static u64 spread(const i64 *key, i64 size) {
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

// The place of a key in the table: that of its plan, or a free one.
static Plan **place_of(const Kernel *kernel, const i64 *key) {
    u64 mask = (u64)kernel->slots - 1, slot = spread(key, kernel->key_size) & mask;
    while (kernel->table[slot] && !same(kernel->table[slot]->key, key, kernel->key_size)) slot = (slot + 1) & mask;
    return &kernel->table[slot];
}

// Remembers a plan; the table must have a free slot left afterwards.
extern "C" void tilelang_learn(const Kernel *kernel, Plan *plan) { *place_of(kernel, plan->key) = plan; }

static bool follows(const Extent &extent, i64 value, i64 *key, i64 *known) {
    if (extent.rule == EXACT) return value == extent.value;
    if (extent.rule == SAME) return value == key[extent.value];
    key[(*known)++] = value;
    return true;
}

static bool dense(const Tensor &tensor) {
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

// Whether it has to be asked if a tensor that fits stands for the negative of what is in memory. Such are imaginary
// parts of conjugated tensors, whose elements lie two apart: dense only if there is but one.
static bool may_be_negated(const Input &input, const Tensor &tensor) {
    if (!input.negatable || input.strided) return input.negatable;
    for (int axis = 0; axis < tensor.rank; axis++)
        if (tensor.shape[axis] != 1) return false;
    return true;
}

// Whether a tensor is what the kernel takes; its extents join the key.
static bool fits(const Kernel *kernel, const Input &input, const Tensor &tensor, i64 *key, i64 *known) {
    if ((tensor.code | tensor.bits << 8 | (i64)tensor.lanes << 16) != input.dtype) return false;
    if (tensor.rank != input.rank || tensor.device_kind != kernel->device_kind) return false;
    if (((u64)tensor.data + tensor.byte_offset) % VECTOR_BYTES) return false;
    const Extent *extent = input.extents;
    for (int axis = 0; axis < tensor.rank; axis++)
        if (!follows(*extent++, tensor.shape[axis], key, known)) return false;
    if (!input.strided) return dense(tensor);
    for (int axis = 0; axis < tensor.rank; axis++)
        if (!follows(*extent++, tensor.strides[axis], key, known)) return false;
    return true;
}

// The bits of a scalar; false if it is none, or out of the range of its type.
static bool scalar(const Kernel *kernel, const Input &input, Object object, Object type, u64 *bits) {
    if (input.kind == FLOAT32 || input.kind == FLOAT64) {
        if (type != kernel->float_type && type != kernel->integer_type) return false;
        double value = python.float_value(object);
        if (value == -1.0 && python.error_occurred()) return false;
        if (input.kind == FLOAT64) {
            __builtin_memcpy(bits, &value, 8);
        } else {
            float rounded = (float)value;
            *bits = 0;
            __builtin_memcpy(bits, &rounded, 4);
        }
        return true;
    }
    if (type != (input.kind == BOOL ? kernel->bool_type : kernel->integer_type)) return false;
    if (input.kind == UNSIGNED) {
        u64 value = python.unsigned_value(object);
        if (value == ~0ull && python.error_occurred()) return false;
        *bits = value;
        return value <= input.high;
    }
    i64 value = python.signed_value(object);
    if (value == -1 && python.error_occurred()) return false;
    *bits = (u64)value;
    return value >= input.low && value <= (i64)input.high;
}

// A new tensor and where it lies; null, with Python's error set, if there is no memory.
static Object make(const Kernel *kernel, Object self, const Recipe &recipe, u64 *address) {
    Object made = python.call(python.tuple_item(self, EMPTY), recipe.args, recipe.keywords);
    Tensor tensor;
    if (made && kernel->tensor_of(made, &tensor)) {
        python.decrease(made);
        return 0;
    }
    if (made) *address = (u64)tensor.data + tensor.byte_offset;
    return made;
}

static int start(const Kernel *kernel, const Launch &launch, const u64 *values, void *stream) {
    alignas(MAP_ALIGNMENT) char bytes[MAX_BYTES];
    void *pointers[MAX_ARGUMENTS];
    __builtin_memcpy(bytes, launch.arguments, (u64)launch.argument_bytes);
    for (i64 n = 0; n < launch.argument_count; n++) pointers[n] = bytes + launch.offsets[n];
    for (i64 n = 0; n < launch.filled_count; n++) {
        const Argument &argument = launch.filled[n];
        const u64 *value = values + argument.source;  // little-endian: the low bytes are the narrow value
        char *place = bytes + argument.offset;
        switch (argument.size_bytes) {
            case 8: __builtin_memcpy(place, value, 8); break;
            case 4: __builtin_memcpy(place, value, 4); break;
            case 2: __builtin_memcpy(place, value, 2); break;
            default: *place = *(const char *)value;
        }
    }
    for (i64 n = 0; n < launch.map_count; n++) {
        const Map &map = launch.maps[n];
        u64 address = values[map.source];
        if (address == map.address) continue;
        int status = kernel->encode(bytes + map.offset, map.dtype, map.rank, (void *)address, map.dims, map.strides,
                                    map.box, map.steps, map.interleaved, map.swizzle, map.promotion, map.outside);
        if (status) return status;
    }
    Config config = *launch.config;
    config.stream = stream;
    return kernel->launch(&config, launch.function, pointers, 0);
}

// The address that a tensor or a number stands for; false if it is none that programs may rely on.
static bool pointed(const Kernel *kernel, const Input &input, Object object, Object type, u64 *address, i64 *device) {
    Tensor tensor;
    if (type != kernel->tensor_types[0] && type != kernel->tensor_types[1]) {
        if (!scalar(kernel, input, object, type, address)) return false;
    } else {
        if (kernel->tensor_of(object, &tensor) || tensor.device_kind != kernel->device_kind) return false;
        if (*device == -1) *device = tensor.device;
        if (tensor.device != *device) return false;
        *address = (u64)tensor.data + tensor.byte_offset;
    }
    return *address && *address % VECTOR_BYTES == 0;
}

static Object other_way(Object self, Object args) {
    python.clear_error();
    return python.call_objects(python.tuple_item(self, LONG_WAY), args, (Object)0);
}

// What the driver refused: raises, or takes the long way.
static Object refused(Object self, Object args, int status, bool first, Object name) {
    Object answer = python.new_integer(status), flag = python.new_integer(first), result = 0;
    if (answer && flag)
        result = python.call_objects(python.tuple_item(self, FAILED), answer, flag, name, args, (Object)0);
    if (answer) python.decrease(answer);
    if (flag) python.decrease(flag);
    return result;
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

// Launches a plan with the inputs' values, to which those of outputs and workspaces are added.
static Object run(const Kernel *kernel, const Plan *plan, Object self, Object args, u64 *values) {
    Object made[MAX_MADE], result = 0;
    i64 count = 0, done = 0;
    int status = 0;
    void *stream = 0;
    while (count < plan->made_count) {
        made[count] = make(kernel, self, plan->made[count], &values[kernel->input_count + count]);
        if (!made[count]) goto end;
        count++;
    }
    if (kernel->stream_of((int)kernel->device_kind, (int)plan->key[0], &stream)) {
        result = other_way(self, args);
        goto end;
    }
    {
        void *thread = python.release_lock();  // the driver waits where its queue is full
        while (done < plan->launch_count && !(status = start(kernel, plan->launches[done], values, stream))) done++;
        python.take_lock(thread);
    }
    result = status ? refused(self, args, status, done == 0, plan->launches[done].name)
                    : returned(self, made, plan->returned_count);
end:
    while (count) python.decrease(made[--count]);
    return result;
}

// What the functions of Python are; before anything else.
extern "C" void tilelang_prepare(const Python *functions) { python = *functions; }

// A function of Python, of the kind METH_VARARGS.
extern "C" Object tilelang_call(Object self, Object args) {
    const Kernel *kernel = (const Kernel *)python.unsigned_value(python.tuple_item(self, KERNEL));
    if (python.tuple_size(args) != kernel->input_count) return other_way(self, args);
    u64 values[MAX_INPUTS + MAX_MADE];
    i64 key[MAX_KEY], known = 1;
    key[0] = -1;  // the device
    for (i64 n = 0; n < kernel->input_count; n++) {
        const Input &input = kernel->inputs[n];
        Object object = python.tuple_item(args, n), type = *(Object *)((char *)object + kernel->type_offset);
        if (input.kind == POINTER) {
            if (!pointed(kernel, input, object, type, &values[n], &key[0])) return other_way(self, args);
            if (input.keyed) key[known++] = (i64)values[n];
            continue;
        }
        if (input.kind != TENSOR) {
            if (!scalar(kernel, input, object, type, &values[n])) return other_way(self, args);
            if (input.keyed) key[known++] = (i64)values[n];
            continue;
        }
        Tensor tensor;
        if (type != kernel->tensor_types[0] && type != kernel->tensor_types[1]) return other_way(self, args);
        if (kernel->tensor_of(object, &tensor)) return other_way(self, args);
        if (key[0] == -1) key[0] = tensor.device;
        if (tensor.device != key[0] || !fits(kernel, input, tensor, key, &known)) return other_way(self, args);
        if (may_be_negated(input, tensor)) {
            Object answer = python.call_objects(python.tuple_item(self, IS_NEGATED), object, (Object)0);
            int negated = answer ? python.is_true(answer) : 1;
            if (answer) python.decrease(answer);
            if (negated) return other_way(self, args);
        }
        values[n] = (u64)tensor.data + tensor.byte_offset;
    }
    const Plan *plan = *place_of(kernel, key);
    void *context = 0;
    if (!plan || kernel->context_of(&context) || context != plan->context) return other_way(self, args);
    if (plan->failure && *plan->failure) return other_way(self, args);
    return run(kernel, plan, self, args, values);
}
