// Plans of convolutions and of the gradient of their bias.
#include "plans.hpp"

namespace gradkern_runtime {

made_plan make_convolution(const gradkern_problem& p) noexcept {
    const auto options = options_of(p);
    const auto a = attributes_of<gk::convolution_attributes>(p);
    switch (p.op) {
        case GRADKERN_CONVOLUTION:
            return keep(gk::plan_convolution(typed(p, 0), typed(p, 1), typed(p, 2), a, typed(p, 3), options),
                        [](const auto& plan, void* const* x, auto workspace, auto executor) noexcept {
                            return plan.run(x[0], x[1], x[2], x[3], workspace, executor);
                        });
        case GRADKERN_CONVOLUTION_BACKWARD_DATA:
            return keep(gk::plan_convolution_backward_data(typed(p, 0), typed(p, 1), a, typed(p, 2), options),
                        [](const auto& plan, void* const* x, auto workspace, auto executor) noexcept {
                            return plan.run(x[0], x[1], x[2], workspace, executor);
                        });
        case GRADKERN_CONVOLUTION_BACKWARD_WEIGHTS:
            return keep(
                gk::plan_convolution_backward_weights(typed(p, 0), typed(p, 1), a, typed(p, 2), typed(p, 3), options),
                [](const auto& plan, void* const* x, auto workspace, auto executor) noexcept {
                    return plan.run(x[0], x[1], x[2], x[3], workspace, executor);
                });
        default:
            return keep(
                gk::plan_bias_backward(typed(p, 0), attributes_of<gk::bias_attributes>(p), typed(p, 1), options),
                [](const auto& plan, void* const* x, auto workspace, auto executor) noexcept {
                    return plan.run(x[0], x[1], workspace, executor);
                });
    }
}

}  // namespace gradkern_runtime
