// Plans of transposed convolutions.
#include "plans.hpp"

namespace gradkern_runtime {

made_plan make_conv_transpose(const gradkern_problem& p) noexcept {
    const auto options = options_of(p);
    const auto a = attributes_of<gk::conv_transpose_attributes>(p);
    if (p.op == GRADKERN_CONV_TRANSPOSE)
        return keep(gk::plan_conv_transpose(typed(p, 0), typed(p, 1), typed(p, 2), a, typed(p, 3), options),
                    [](const auto& plan, void* const* x, auto workspace, auto executor) noexcept {
                        return plan.run(x[0], x[1], x[2], x[3], workspace, executor);
                    });
    if (p.op == GRADKERN_CONV_TRANSPOSE_BACKWARD_DATA)
        return keep(gk::plan_conv_transpose_backward_data(typed(p, 0), typed(p, 1), a, typed(p, 2), options),
                    [](const auto& plan, void* const* x, auto workspace, auto executor) noexcept {
                        return plan.run(x[0], x[1], x[2], workspace, executor);
                    });
    return keep(
        gk::plan_conv_transpose_backward_weights(typed(p, 0), typed(p, 1), a, typed(p, 2), typed(p, 3), options),
        [](const auto& plan, void* const* x, auto workspace, auto executor) noexcept {
            return plan.run(x[0], x[1], x[2], x[3], workspace, executor);
        });
}

}  // namespace gradkern_runtime
