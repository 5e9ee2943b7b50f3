// Compiled for the oldest machine. Calls the objects that this one can run, or the one that suits it best (`main best`).
#include <cstdio>
#include <cstring>

#define DECLARE(name) \
    namespace name {  \
    int check();      \
    }
#if defined(__x86_64__)
DECLARE(x86_64)
DECLARE(x86_64_v3)
DECLARE(x86_64_v4)
#else
DECLARE(oldest)
DECLARE(newer)
#endif

struct object {
    const char* name;
    bool runs_here;
    int (*check)();
};

int main(int count, char** arguments) {
#if defined(__x86_64__)
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512cd");
    const object objects[]{
        {"x86-64-v4", v4, x86_64_v4::check}, {"x86-64-v3", v3, x86_64_v3::check}, {"x86-64", true, x86_64::check}};
#else
    const object objects[]{{"newer", GRADKERN_ONE_PROGRAM_NEWER_RUNS, newer::check}, {"oldest", true, oldest::check}};
#endif
    const bool best = count > 1 && std::strcmp(arguments[1], "best") == 0;
    int wrong = 0;
    for (const object& o : objects) {
        if (!o.runs_here) continue;
        const int here = o.check();
        std::printf("%s: %d wrong\n", o.name, here);
        wrong += here;
        if (best) break;
    }
    return wrong == 0 ? 0 : 1;
}
