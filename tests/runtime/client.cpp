// A C++17 program with the wrapper: the same bits for one worker and several, and for every instruction set that the
// environment names. It runs some larger problems, and each operator with each type. It prints a hash of its results, which the test
// compares.
#include <gradkern/runtime.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

static_assert(__cplusplus < 202002L, "as users of older standards compile it");

namespace {

struct threads {
    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& f) const {
        std::vector<std::thread> all;
        for (std::ptrdiff_t i = 0; i < n; ++i) all.emplace_back([&f, i] { f(i); });
        for (std::thread& t : all) t.join();
    }
    static std::ptrdiff_t concurrency() { return 3; }
};

std::uint64_t hash = 0xcbf29ce484222325U;
bool failed = false;

std::vector<float> numbers(std::size_t count, std::uint32_t seed) {
    std::vector<float> v(count);
    for (float& x : v) {
        seed = seed * 1664525U + 1013904223U;
        x = static_cast<float>(static_cast<std::int32_t>(seed)) / 2147483648.0F;
    }
    return v;
}

void run(const gradkern_problem& p, std::initializer_list<const void*> tensors, std::vector<float>& result) {
    gradkern_error error{};
    const gradkern::runtime::plan plan(p, error);
    if (!plan) {
        std::printf("%s\n", error.message);
        failed = true;
        return;
    }
    threads pool;
    const gradkern::runtime::executor_of<threads> executor(pool);
    std::vector<float> first;
    for (const std::int64_t workers : {1, 3}) {
        std::vector<unsigned char> workspace(plan.workspace_bytes(workers));
        error = plan.run(tensors, workspace.data(), workspace.size(), workers == 1 ? nullptr : executor.get());
        if (error.code != GRADKERN_OK) std::printf("%s\n", error.message);
        failed = failed || error.code != GRADKERN_OK;
        if (workers == 1) first = result;
    }
    failed = failed || std::memcmp(first.data(), result.data(), first.size() * sizeof(float)) != 0;
    for (const float x : result) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &x, sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3U;
    }
}

using bytes = std::vector<unsigned char>;

/// Numbers of the type, none of them zero, infinite or a NaN.
bytes numbers(gradkern_type type, std::size_t count, std::uint32_t seed) {
    bytes v;
    for (const float x : numbers(count, seed)) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, &x, sizeof x);
        const auto random = static_cast<std::uint64_t>(bits * 2654435761U);
        if (type == GRADKERN_F16) bits = (random & 0x83ffU) | (12 + (random >> 16) % 4) << 10;
        if (type == GRADKERN_BF16) bits >>= 16;
        if (type == GRADKERN_F64) {
            const double wide = double{x} + double{x} * 0x1p-31 * static_cast<double>(random & 0xffffU);
            std::memcpy(&bits, &wide, sizeof wide);
        }
        const std::size_t size = type == GRADKERN_F64 ? 8 : type == GRADKERN_F32 ? 4 : 2;
        for (std::size_t i = 0; i < size; ++i) v.push_back(static_cast<unsigned char>(bits >> 8 * i));
    }
    return v;
}

/// An operator and what its tensors are: L, l: the large side of the windows with 12 channels, S, s: the small one with 20 and with 12,
/// W, T: weights of convolutions and of their transposes, B, b: biases of 20 and 12 channels, I: indices.
struct row {
    gradkern_operator op;
    const char* tensors;
    std::size_t inputs;
};
const row rows[] = {
    {GRADKERN_CONVOLUTION, "LWBS", 3},
    {GRADKERN_CONVOLUTION_BACKWARD_DATA, "SWL", 2},
    {GRADKERN_CONVOLUTION_BACKWARD_WEIGHTS, "LSWB", 2},
    {GRADKERN_CONV_TRANSPOSE, "STbL", 3},
    {GRADKERN_CONV_TRANSPOSE_BACKWARD_DATA, "LTS", 2},
    {GRADKERN_CONV_TRANSPOSE_BACKWARD_WEIGHTS, "SLTb", 2},
    {GRADKERN_BIAS_BACKWARD, "SB", 1},
    {GRADKERN_AVG_POOL, "Ls", 1},
    {GRADKERN_AVG_POOL_BACKWARD, "sL", 1},
    {GRADKERN_LP_POOL, "Ls", 1},
    {GRADKERN_LP_POOL_BACKWARD, "LssL", 3},
    {GRADKERN_MAX_POOL, "LsI", 1},
    {GRADKERN_MAX_POOL_BACKWARD, "LsL", 2},
    {GRADKERN_MAX_POOL_BACKWARD_FROM_INDICES, "sIL", 2},
};

void every_operator(gradkern_type type, gradkern_data_format format) {
    bytes indices;  // of the max pool, for the gradient behind it
    for (const row& r : rows) {
        gradkern::runtime::problem p(r.op);
        p.window({}, {2, 2}, {1, 1}, {1, 1});
        if (r.op >= GRADKERN_AVG_POOL) p.kernel = gradkern::runtime::problem::list({3, 3});
        p.data_format = format;
        p.weights_format = GRADKERN_OIX;
        std::vector<bytes> memory;
        for (std::size_t i = 0; r.tensors[i] != '\0'; ++i) {
            const char what = r.tensors[i];
            const bool large = what == 'L';
            const std::int64_t c = what == 'S' || what == 'B' ? 20 : 12;
            const std::int64_t h = large ? 9 : 5;
            const std::int64_t w = large ? 11 : 6;
            if (what == 'W' || what == 'T')
                p.tensor(i, type, {what == 'W' ? 20 : 12, what == 'W' ? 12 : 20, 3, 3});
            else if (what == 'B' || what == 'b')
                p.tensor(i, type, {c});
            else if (format == GRADKERN_NXC)
                p.tensor(i, type, {2, h, w, c});
            else
                p.tensor(i, type, {2, c, h, w});
            std::size_t count = 1;
            for (int axis = 0; axis < p.tensors[i].rank; ++axis)
                count *= static_cast<std::size_t>(p.tensors[i].shape[axis]);
            memory.push_back(what != 'I'    ? numbers(type, count, static_cast<std::uint32_t>(4 + i))
                             : i < r.inputs ? indices
                                            : bytes(count * sizeof(std::int64_t)));
        }
        gradkern_error error{};
        const gradkern::runtime::plan plan(p, error);
        std::vector<bytes> first;
        for (const std::int64_t workers : {1, 3}) {
            for (std::size_t i = r.inputs; i < memory.size(); ++i) memory[i].assign(memory[i].size(), 0xff);
            std::vector<void*> tensors;
            for (bytes& m : memory) tensors.push_back(m.data());
            threads pool;
            const gradkern::runtime::executor_of<threads> executor(pool);
            bytes workspace(plan.workspace_bytes(workers));
            if (plan)
                gradkern_plan_run(plan.get(), tensors.data(), tensors.size(), workspace.data(), workspace.size(),
                                  workers == 1 ? nullptr : executor.get(), &error, sizeof error);
            if (error.code != GRADKERN_OK) {
                std::printf("%s\n", error.message);
                failed = true;
                return;
            }
            if (workers == 1) first = memory;
        }
        failed = failed || memory != first;
        for (std::size_t i = r.inputs; i < memory.size(); ++i)
            for (const unsigned char b : memory[i]) hash = (hash ^ b) * 0x100000001b3U;
        if (r.op == GRADKERN_MAX_POOL) indices = memory.back();
    }
}

}  // namespace

int main() {
    using gradkern::runtime::problem;
    const std::vector<float> x = numbers(2 * 30 * 31 * 24, 1);
    const std::vector<float> w = numbers(40 * 24 * 9, 2);
    const std::vector<float> y = numbers(2 * 30 * 31 * 40, 3);
    std::vector<float> out;
    for (const bool last : {true, false}) {
        problem forward(GRADKERN_CONVOLUTION);
        problem data(GRADKERN_CONVOLUTION_BACKWARD_DATA);
        problem weights(GRADKERN_CONVOLUTION_BACKWARD_WEIGHTS);
        for (problem* p : {&forward, &data, &weights}) {
            p->window({}, {1, 1}, {1, 1}, {1, 1});
            p->data_format = last ? GRADKERN_NXC : GRADKERN_NCX;
            p->weights_format = GRADKERN_OIX;
        }
        const auto set = [&](problem& p, std::size_t i, std::int64_t c) {
            last ? p.tensor(i, GRADKERN_F32, {2, 30, 31, c}) : p.tensor(i, GRADKERN_F32, {2, c, 30, 31});
        };
        set(forward, 0, 24);
        forward.tensor(1, GRADKERN_F32, {40, 24, 3, 3});
        out.assign(y.size(), 0);
        run(forward, {x.data(), w.data(), nullptr, out.data()}, out);
        set(data, 0, 40);
        data.tensor(1, GRADKERN_F32, {40, 24, 3, 3});
        set(data, 2, 24);
        out.assign(x.size(), 0);
        run(data, {y.data(), w.data(), out.data()}, out);
        set(weights, 0, 24);
        set(weights, 1, 40);
        weights.tensor(2, GRADKERN_F32, {40, 24, 3, 3});
        out.assign(w.size(), 0);
        run(weights, {x.data(), y.data(), out.data()}, out);
        problem pool(GRADKERN_AVG_POOL);
        pool.window({3, 3}, {2, 2}, {1, 1}, {1, 1});
        pool.data_format = last ? GRADKERN_NXC : GRADKERN_NCX;
        set(pool, 0, 24);
        out.assign(2 * 15 * 16 * 24, 0);
        run(pool, {x.data(), out.data()}, out);
        pool.op = GRADKERN_MAX_POOL;
        run(pool, {x.data(), out.data()}, out);
    }
    for (const gradkern_type type : {GRADKERN_F32, GRADKERN_F16, GRADKERN_BF16, GRADKERN_F64})
        for (const gradkern_data_format format : {GRADKERN_NXC, GRADKERN_NCX}) every_operator(type, format);
    std::printf("%s %016llx\n", gradkern_isa(), static_cast<unsigned long long>(hash));
    return failed ? 1 : 0;
}
