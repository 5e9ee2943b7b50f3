// Adam (Kingma and Ba 2015): every weight moves by its mean gradient divided by the root of its mean squared gradient.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "network.hpp"

namespace digits {

class adam {
public:
    explicit adam(const parameters& all) {
        for (const parameter& p : all) {
            mean_.emplace_back(p.value.size());
            square_.emplace_back(p.value.size());
        }
    }

    /// One step of size `rate` along gradients that are `scale` times too large. If a gradient is not finite, it makes no
    /// step and returns false.
    bool step(parameters& all, float rate, float scale) {
        for (const parameter& p : all) {
            if (!std::all_of(p.gradient.begin(), p.gradient.end(), [](float g) { return std::isfinite(g); })) {
                return false;
            }
        }
        mean_decay_ *= mean_keep;
        square_decay_ *= square_keep;
        for (std::size_t t = 0; t < all.size(); ++t) {
            for (std::size_t i = 0; i < all[t].value.size(); ++i) {
                const float gradient = all[t].gradient[i] / scale;
                float& mean = mean_[t][i];
                float& square = square_[t][i];
                mean = mean_keep * mean + (1 - mean_keep) * gradient;
                square = square_keep * square + (1 - square_keep) * gradient * gradient;
                // Both averages start at zero; the divisions correct for that.
                const float direction = mean / (1 - mean_decay_) / (std::sqrt(square / (1 - square_decay_)) + 1e-8F);
                all[t].value[i] -= rate * direction;
            }
        }
        return true;
    }

private:
    static constexpr float mean_keep = 0.9F, square_keep = 0.999F;
    float mean_decay_ = 1, square_decay_ = 1;  // powers of the two above
    std::vector<std::vector<float>> mean_, square_;
};

}  // namespace digits
