// Launches the kernels of a plan: what `Plan::start` of call_checker.cpp is for a GPU.
//
// Takes a `State`, which Python wrote (native_launch.py has the same structures), the values of a call and a stream.
// Invariant: nothing is launched in another context than the one in which the plan was made, nor after an assertion of
// the program has failed.
//
// Source: CUDA Driver API, CUlaunchConfig, cuLaunchKernelEx, cuTensorMapEncodeTiled and cuCtxGetCurrent; HIP runtime
// API, hipModuleLaunchKernel and hipGetDevice.

typedef long long i64;
typedef unsigned long long u64;

struct Config {
    unsigned grid[3], threads[3], shared_bytes;
    void *stream;
    void *attributes;
    unsigned attribute_count;
};

struct Argument {
    i64 slot, offset, size_bytes;
    i64 narrowed;  // a double that the kernel takes as a float
};

// A tensor map among the arguments: it says where a tensor is, so it is encoded anew where that changes.
struct Map {
    i64 slot, offset;
    u64 address;  // for which `arguments` holds it
    u64 *dims, *strides;
    unsigned *box, *steps, rank;
    int dtype, interleaved, swizzle, promotion, outside;
};

struct Launch {
    Config *config;
    void *function;
    char *arguments;  // with the values that no call changes
    i64 argument_bytes, argument_count, filled_count, map_count;
    i64 *offsets;     // of all arguments
    Argument *filled; // those that every call fills in
    Map *maps;
};

struct State {
    int (*context_of)(void **);  // may fill the low half only, with the number of a device
    int (*launch)(Config *, void *, void **, void **);  // of CUDA; the next one is of HIP, and one of them is there
    int (*launch_values)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                         void **);
    int (*encode)(void *, int, unsigned, void *, const u64 *, const u64 *, const unsigned *, const unsigned *, int, int,
                  int, int);
    void *context;
    volatile int *failure;
    i64 launch_count;
    Launch *launches;
};

enum { MAX_ARGUMENTS = 192, MAX_BYTES = 4096, MAP_ALIGNMENT = 64 };
enum { INVALID_CONTEXT = 201, INVALID_HANDLE = 400 };  // enum CUresult, and the same in hipError_t
enum { STATUS_BITS = 32 };  // an answer is a status, and above it the number of the launch

static void fill(const Argument &argument, const u64 *values, char *bytes) {
    const u64 *value = values + argument.slot;  // little-endian: the low bytes are the narrow value
    char *place = bytes + argument.offset;
    if (argument.narrowed) {
        double wide;
        __builtin_memcpy(&wide, value, sizeof wide);
        float rounded = (float)wide;
        __builtin_memcpy(place, &rounded, sizeof rounded);
        return;
    }
    switch (argument.size_bytes) {
        case 8: __builtin_memcpy(place, value, 8); break;
        case 4: __builtin_memcpy(place, value, 4); break;
        case 2: __builtin_memcpy(place, value, 2); break;
        default: *place = *(const char *)value;
    }
}

static int launched(const State *state, const Launch &launch, const u64 *values, void *stream) {
    alignas(MAP_ALIGNMENT) char bytes[MAX_BYTES];
    void *pointers[MAX_ARGUMENTS];
    __builtin_memcpy(bytes, launch.arguments, (u64)launch.argument_bytes);
    for (i64 n = 0; n < launch.argument_count; n++) pointers[n] = bytes + launch.offsets[n];
    for (i64 n = 0; n < launch.filled_count; n++) fill(launch.filled[n], values, bytes);
    for (i64 n = 0; n < launch.map_count; n++) {
        const Map &map = launch.maps[n];
        u64 address = values[map.slot];
        if (address == map.address) continue;
        int status = state->encode(bytes + map.offset, map.dtype, map.rank, (void *)address, map.dims, map.strides,
                                   map.box, map.steps, map.interleaved, map.swizzle, map.promotion, map.outside);
        if (status) return status;
    }
    Config config = *launch.config;
    if (!state->launch)
        return state->launch_values(launch.function, config.grid[0], config.grid[1], config.grid[2], config.threads[0],
                                    config.threads[1], config.threads[2], config.shared_bytes, stream, pointers, 0);
    config.stream = stream;
    return state->launch(&config, launch.function, pointers, 0);
}

extern "C" i64 tilelang_launch(const State *state, const u64 *values, void *stream) {
    void *context = 0;
    if (state->context_of(&context) || context != state->context) return -1;
    if (state->failure && *state->failure) return -1;
    for (i64 n = 0; n < state->launch_count; n++) {
        int status = launched(state, state->launches[n], values, stream);
        if (n == 0 && (status == INVALID_CONTEXT || status == INVALID_HANDLE)) return -1;
        if (status) return status | n << STATUS_BITS;
    }
    return 0;
}
