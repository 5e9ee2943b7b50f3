// A C++17 program with the wrapper: the same bits for one worker and several, and for every instruction set that the
// environment names. It prints a hash of its results, which the test compares.
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
    std::printf("%s %016llx\n", gradkern_isa(), static_cast<unsigned long long>(hash));
    return failed ? 1 : 0;
}
