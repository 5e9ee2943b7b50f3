#include <cstdio>

namespace GRADKERN_TWO_TU_FIRST {
int check();
}
namespace GRADKERN_TWO_TU_SECOND {
int check();
}

static bool machine_has_what_it_needs() {
    bool has = true;
#ifdef GRADKERN_TWO_TU_NEEDS_V3
    has = has && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#endif
#ifdef GRADKERN_TWO_TU_NEEDS_V4
    has = has && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    return has;
}

int main() {
    if (!machine_has_what_it_needs()) {
        std::puts("this machine cannot run one of the objects");
        return 77;
    }
    const int first = GRADKERN_TWO_TU_FIRST::check();
    const int second = GRADKERN_TWO_TU_SECOND::check();
    std::printf("wrong results: %d in the first object, %d in the second\n", first, second);
    return first + second == 0 ? 0 : 1;
}
