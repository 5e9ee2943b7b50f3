// Plans of pools.
#include "plans.hpp"

namespace gradkern_runtime {

made_plan make_pool(const gradkern_problem& p) noexcept {
    const auto options = options_of(p);
    const auto two = [](const auto& plan, void* const* x, auto workspace, auto executor) noexcept {
        return plan.run(x[0], x[1], workspace, executor);
    };
    switch (p.op) {
        case GRADKERN_AVG_POOL:
            return keep(gk::plan_avg_pool(typed(p, 0), attributes_of<gk::avg_pool_attributes>(p), typed(p, 1), options),
                        two);
        case GRADKERN_AVG_POOL_BACKWARD:
            return keep(gk::plan_avg_pool_backward(typed(p, 0), attributes_of<gk::avg_pool_attributes>(p), typed(p, 1),
                                                   options),
                        two);
        case GRADKERN_LP_POOL:
            return keep(gk::plan_lp_pool(typed(p, 0), attributes_of<gk::lp_pool_attributes>(p), typed(p, 1), options),
                        two);
        case GRADKERN_LP_POOL_BACKWARD:
            return keep(gk::plan_lp_pool_backward(typed(p, 0), typed(p, 1), typed(p, 2),
                                                  attributes_of<gk::lp_pool_attributes>(p), typed(p, 3), options),
                        [](const auto& plan, void* const* x, auto workspace, auto executor) noexcept {
                            return plan.run(x[0], x[1], x[2], x[3], workspace, executor);
                        });
        case GRADKERN_MAX_POOL:
            return keep(gk::plan_max_pool(typed(p, 0), attributes_of<gk::max_pool_attributes>(p), typed(p, 1),
                                          layout_of(p.tensors[2]), options),
                        [](const auto& plan, void* const* x, auto workspace, auto executor) noexcept {
                            return plan.run(x[0], x[1], static_cast<std::int64_t*>(x[2]), workspace, executor);
                        });
        case GRADKERN_MAX_POOL_BACKWARD:
            return keep(gk::plan_max_pool_backward(typed(p, 0), typed(p, 1), attributes_of<gk::max_pool_attributes>(p),
                                                   typed(p, 2), options),
                        [](const auto& plan, void* const* x, auto workspace, auto executor) noexcept {
                            return plan.run(x[0], x[1], x[2], workspace, executor);
                        });
        default:
            return keep(gk::plan_max_pool_backward_from_indices(typed(p, 0), layout_of(p.tensors[1]),
                                                                attributes_of<gk::max_pool_indices_attributes>(p),
                                                                typed(p, 2), options),
                        [](const auto& plan, void* const* x, auto workspace, auto executor) noexcept {
                            return plan.run(x[0], static_cast<const std::int64_t*>(x[1]), x[2], workspace, executor);
                        });
    }
}

}  // namespace gradkern_runtime
