// A small network of tiny-dnn's layers, and of the same layers with gradkern inside.
//
//     network            outputs and gradients, trainings with 1 to 3 threads
//     network time       milliseconds of a training step of each
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "layers.hpp"

using tiny_dnn::padding;
using tiny_dnn::vec_t;
using tiny_dnn::activation::relu;

namespace {

using network = tiny_dnn::network<tiny_dnn::sequential>;

struct theirs {
    template <class A>
    using convolution = tiny_dnn::convolutional_layer<A>;
    template <class A>
    using pool = tiny_dnn::max_pooling_layer<A>;
};
struct ours {
    template <class A>
    using convolution = gradkern_tiny::convolutional_layer<A>;
    template <class A>
    using pool = gradkern_tiny::max_pooling_layer<A>;
};

// Both begin with the same weights: the generator is seeded anew.
template <class Layers>
network make(unsigned scale) {
    using tiny_dnn::activation::identity;
    tiny_dnn::set_random_seed(7);
    const unsigned c = 8 * scale;
    network net;
    net << typename Layers::template convolution<relu>(28, 28, 5, 5, 1, c, padding::same)
        << typename Layers::template pool<identity>(28, 28, c, 2, 2)
        << typename Layers::template convolution<relu>(14, 14, 3, 3, c, 2 * c, padding::same, true, 2, 2)
        << typename Layers::template convolution<relu>(7, 7, 3, 2, 2 * c, 16, padding::valid)
        << tiny_dnn::fully_connected_layer<identity>(5 * 6 * 16, 10);
    net.init_weight();
    return net;
}

struct samples {
    std::vector<vec_t> images, targets;
};
samples make_samples(int count) {
    samples s;
    std::uint32_t state = 3;
    for (int i = 0; i < count; ++i) {
        vec_t image(28 * 28), target(10, 0.0f);
        for (std::size_t p = 0; p < image.size(); ++p) {
            state = state * 1664525u + 1013904223u;
            const std::size_t stripe = (p / 28 * static_cast<std::size_t>(i % 10) + p % 28) % 10;
            image[p] = (stripe < 5 ? 1.0f : 0.0f) + static_cast<float>(state >> 8) / 67108864.0f;
        }
        target[static_cast<std::size_t>(i % 10)] = 1;
        s.images.push_back(image);
        s.targets.push_back(target);
    }
    return s;
}

void step(network& net, tiny_dnn::gradient_descent& optimizer, const samples& s, int epochs) {
    net.fit<tiny_dnn::mse>(optimizer, s.images, s.targets, s.images.size(), epochs);
}

std::vector<float> weights_of(network& net) {
    std::vector<float> all;
    for (std::size_t i = 0; i < net.depth(); ++i)
        for (const vec_t* w : net[i]->weights()) all.insert(all.end(), w->begin(), w->end());
    return all;
}
std::uint64_t hash(const std::vector<float>& values) {
    std::uint64_t h = 0xcbf29ce484222325u;
    for (const float v : values) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &v, sizeof bits);
        h = (h ^ bits) * 0x100000001b3u;
    }
    return h;
}
float distance(const std::vector<float>& a, const std::vector<float>& b) {
    float most = a.size() == b.size() ? 0 : 1e9f;
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) most = std::max(most, std::fabs(a[i] - b[i]));
    return most;
}

float loss(network& net, const samples& s) {
    float sum = 0;
    for (std::size_t i = 0; i < s.images.size(); ++i) {
        const vec_t y = net.predict(s.images[i]);
        for (std::size_t k = 0; k < y.size(); ++k) sum += (y[k] - s.targets[i][k]) * (y[k] - s.targets[i][k]);
    }
    return sum / static_cast<float>(s.images.size());
}

struct training {
    float before, after;
    std::vector<float> weights;
};
template <class Layers>
training train(const samples& s, int epochs) {
    network net = make<Layers>(1);
    tiny_dnn::gradient_descent optimizer;
    optimizer.alpha = 0.02f;
    training t{loss(net, s), 0, {}};
    step(net, optimizer, s, epochs);
    t.after = loss(net, s);
    t.weights = weights_of(net);
    return t;
}

int check() {
    const samples s = make_samples(20);
    int failures = 0;
    const auto expect = [&](bool holds, const std::string& what) {
        std::cout << (holds ? "  " : "FAILED: ") << what << '\n';
        failures += holds ? 0 : 1;
    };
    {
        network a = make<theirs>(1), b = make<ours>(1);
        float most = 0;
        for (const vec_t& image : s.images) {
            const vec_t x = a.predict(image), y = b.predict(image);
            most = std::max(most, distance({x.begin(), x.end()}, {y.begin(), y.end()}));
        }
        expect(most < 1e-5f, "outputs");
    }
    // A layer without a bias, which tiny-dnn's own cannot compute, has the outputs of one whose bias is 0.
    {
        const gradkern_tiny::convolution with({2, 9, 8, 6, 3, 4, 1, 2, true, true});
        const gradkern_tiny::convolution without({2, 9, 8, 6, 3, 4, 1, 2, true, false});
        const std::vector<float> weights(6 * 2 * 3 * 4, 0.5f), zeros(6, 0.0f);
        std::vector<float> a(6 * 9 * 4, -1.0f), b(6 * 9 * 4, -2.0f);
        with.forward({s.images[0].data()}, weights.data(), zeros.data(), {a.data()});
        without.forward({s.images[0].data()}, weights.data(), nullptr, {b.data()});
        expect(a == b, "no bias");
    }
    // One step: weights move by gradients.
    expect(distance(train<theirs>(s, 1).weights, train<ours>(s, 1).weights) < 1e-6f, "gradients of a step");
    // tiny-dnn's own check, by finite differences, of some weights of each layer.
    {
        network net = make<ours>(1);
        std::vector<tiny_dnn::tensor_t> in, target;
        for (int i = 0; i < 3; ++i) {
            in.push_back({s.images[static_cast<std::size_t>(i)]});
            target.push_back({s.targets[static_cast<std::size_t>(i)]});
        }
        expect(net.gradient_check<tiny_dnn::mse>(in, std::vector<std::vector<tiny_dnn::label_t>>(3, {1}), 5e-3f,
                                                 tiny_dnn::GRAD_CHECK_RANDOM),
               "gradients by finite differences");
    }
    const training reference = train<theirs>(s, 20);
    std::vector<std::uint64_t> hashes;
    for (const int threads : {1, 2, 3}) {
        gradkern_tiny::set_threads(threads);
        const training t = train<ours>(s, 20);
        hashes.push_back(hash(t.weights));
        std::cout << threads << " threads: loss " << t.before << " to " << t.after << " (tiny-dnn " << reference.after
                  << "), weights " << std::hex << hashes.back() << std::dec << '\n';
        expect(t.after < 0.7f * t.before, "the network learns");
        expect(std::fabs(t.after - reference.after) < 1e-3f * reference.after, "as tiny-dnn's");
    }
    expect(hashes[0] == hashes[1] && hashes[0] == hashes[2], "one hash");
    return failures;
}

template <class Layers>
double milliseconds(const samples& s) {
    network net = make<Layers>(4);
    tiny_dnn::gradient_descent optimizer;
    double best = 1e9;
    for (int i = 0; i < 7; ++i) {
        const auto start = std::chrono::steady_clock::now();
        step(net, optimizer, s, 1);
        best =
            std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
}
int times() {
    const samples s = make_samples(16);
    const double a = milliseconds<theirs>(s), b = milliseconds<ours>(s);
    std::cout << "a step: " << a << " ms, with gradkern " << b << " ms\n";
    return 0;
}

}  // namespace

int main(int argc, char** argv) { return argc > 1 && std::string(argv[1]) == "time" ? times() : check(); }
