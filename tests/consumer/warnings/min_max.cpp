// Macros min and max, as windows.h defines them, before the headers that do not include xsimd. (xsimd's own headers do not
// compile with such macros, nor do the standard library's, so those come first.)
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <compare>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <ostream>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

// clang-format off
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#include <gradkern/accuracy.hpp>
#include <gradkern/attributes.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/executors/thread_pool.hpp>
#include <gradkern/frontend/aclnn/types.hpp>
#include <gradkern/frontend/common/attribute_types.hpp>
#include <gradkern/frontend/onednn_graph/attributes.hpp>
#include <gradkern/frontend/onnxruntime/attributes.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/ref/avg_pool.hpp>
#include <gradkern/ref/bias.hpp>
#include <gradkern/ref/conv_transpose.hpp>
#include <gradkern/ref/convolution.hpp>
#include <gradkern/ref/max_pool.hpp>
#include <gradkern/shape.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>
#include <gradkern/version.hpp>
#include <gradkern/workspace.hpp>
// clang-format on

int main() { return gradkern::extents{1, 2}.rank() == 2 && gradkern::avg_pool_attributes{}.kernel.empty() ? 0 : 1; }
