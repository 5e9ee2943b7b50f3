// dlib's layers, whoever computes them: C++14, and nothing of gradkern but a count of its calls where ADAPTER is defined.
//
//   layers write FILE      results of convolutions and pools
//   layers compare FILE    the same within a bound
//   layers gradients       dlib's own check of each layer's gradients by finite differences
//   layers train           twenty steps of a small residual network: the losses and a hash of the weights
//   layers time            milliseconds: layers, and a step of the network
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <dlib/dnn.h>

#if defined(ADAPTER)
#include "adapter.hpp"
#endif

namespace tt = dlib::tt;

namespace {

// Numbers from -1 to 1 that are the same everywhere.
class numbers {
public:
    explicit numbers(std::uint32_t seed) : state_(seed) {}
    float operator()() {
        state_ = state_ * 1664525u + 1013904223u;
        return static_cast<float>(state_ >> 8) / 8388608.0f - 1.0f;
    }
    dlib::resizable_tensor tensor(long n, long k, long nr, long nc) {
        dlib::resizable_tensor t(n, k, nr, nc);
        for (float& v : t) v = (*this)();
        return t;
    }

private:
    std::uint32_t state_;
};

struct conv_row {
    const char* name;
    long n, k, nr, nc, filters, height, width;
    int stride_y, stride_x, padding_y, padding_x;
};
const conv_row convolutions[] = {
    {"1x1", 8, 64, 28, 28, 64, 1, 1, 1, 1, 0, 0},          {"3x3", 8, 64, 28, 28, 64, 3, 3, 1, 1, 1, 1},
    {"3x3 stride 2", 8, 64, 28, 28, 96, 3, 3, 2, 2, 1, 1}, {"5x5 of 3", 8, 3, 64, 64, 32, 5, 5, 2, 2, 2, 2},
    {"1x7", 4, 32, 17, 17, 32, 1, 7, 1, 1, 0, 3},          {"odd", 3, 5, 13, 11, 7, 4, 3, 3, 2, 2, 1}};

struct pool_row {
    const char* name;
    bool max;
    long n, k, nr, nc;
    int height, width, stride_y, stride_x, padding_y, padding_x;
};
const pool_row pools[] = {
    {"max 3x3 stride 2", true, 8, 64, 56, 56, 3, 3, 2, 2, 1, 1}, {"max 2x2", true, 8, 64, 28, 28, 2, 2, 2, 2, 0, 0},
    {"avg 3x3", false, 8, 64, 28, 28, 3, 3, 1, 1, 1, 1},         {"avg 7x7", false, 8, 64, 7, 7, 7, 7, 1, 1, 0, 0},
    {"odd max", true, 3, 5, 13, 11, 4, 3, 3, 2, 2, 1},           {"odd avg", false, 3, 5, 13, 11, 4, 3, 3, 2, 2, 1}};

// What one layer computes, forward and backward, each overwritten and added.
struct conv_layer {
    dlib::resizable_tensor data, filters, biases, out, gradient, data_gradient, filters_gradient;
    tt::tensor_conv conv;

    explicit conv_layer(const conv_row& r) {
        numbers random(17);
        data = random.tensor(r.n, r.k, r.nr, r.nc);
        filters = random.tensor(r.filters, r.k, r.height, r.width);
        biases = random.tensor(1, r.filters, 1, 1);
        conv.setup(data, filters, r.stride_y, r.stride_x, r.padding_y, r.padding_x);
        conv(false, out, data, filters);
        gradient = random.tensor(out.num_samples(), out.k(), out.nr(), out.nc());
        data_gradient = random.tensor(r.n, r.k, r.nr, r.nc);
        filters_gradient = random.tensor(r.filters, r.k, r.height, r.width);
    }
};
struct pool_layer {
    dlib::resizable_tensor src, out, gradient, src_gradient;
    tt::pooling pool;

    explicit pool_layer(const pool_row& r) {
        numbers random(23);
        src = random.tensor(r.n, r.k, r.nr, r.nc);
        if (r.max)
            pool.setup_max_pooling(r.height, r.width, r.stride_y, r.stride_x, r.padding_y, r.padding_x);
        else
            pool.setup_avg_pooling(r.height, r.width, r.stride_y, r.stride_x, r.padding_y, r.padding_x);
        pool(out, src);
        gradient = random.tensor(out.num_samples(), out.k(), out.nr(), out.nc());
        src_gradient = random.tensor(r.n, r.k, r.nr, r.nc);
    }
};

std::vector<std::vector<float>> results() {
    std::vector<std::vector<float>> all;
    const auto keep = [&](const dlib::tensor& t) { all.emplace_back(t.begin(), t.end()); };
    for (const conv_row& r : convolutions) {
        conv_layer l(r);
        keep(l.out);
        l.conv(true, l.out, l.data, l.filters);
        keep(l.out);
        l.conv(false, l.out, l.data, l.filters, l.biases);
        keep(l.out);
        for (const bool add : {true, false}) {
            l.conv.get_gradient_for_data(add, l.gradient, l.filters, l.data_gradient);
            keep(l.data_gradient);
            l.conv.get_gradient_for_filters(add, l.gradient, l.data, l.filters_gradient);
            keep(l.filters_gradient);
        }
    }
    for (const pool_row& r : pools) {
        pool_layer l(r);
        keep(l.out);
        l.pool.get_gradient(l.gradient, l.out, l.src, l.src_gradient);
        keep(l.src_gradient);
    }
    return all;
}

int write(const std::string& file) {
    std::ofstream out(file, std::ios::binary);
    for (const std::vector<float>& t : results())
        out.write(reinterpret_cast<const char*>(t.data()), static_cast<std::streamsize>(t.size() * sizeof(float)));
    return out ? 0 : 1;
}

// Sums of up to 6,272 products in another order: distances are small beside the largest number of their tensor.
int compare(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    float most = 0;
    std::size_t count = 0;
    std::size_t different = 0;
    for (const std::vector<float>& got : results()) {
        std::vector<float> wanted(got.size());
        in.read(reinterpret_cast<char*>(wanted.data()), static_cast<std::streamsize>(wanted.size() * sizeof(float)));
        float largest = 0;
        float distance = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
            largest = std::max(largest, std::fabs(wanted[i]));
            const float d = std::fabs(got[i] - wanted[i]);
            if (!(d <= distance)) distance = d;
            different += got[i] != wanted[i];
        }
        count += got.size();
        if (!(distance / largest <= most)) most = distance / largest;
    }
    std::cout << count << " results, " << different << " with other bits, largest distance " << most << '\n';
    return in && most <= 1e-5f ? 0 : 1;
}

template <class Layer>
int check_gradients(const char* name, Layer layer) {
    const auto result = dlib::test_layer(layer);
    std::cout << name << ": " << (result.was_good ? "gradients are right" : result.log) << '\n';
    return result.was_good ? 0 : 1;
}
int gradients() {
    return check_gradients("con_ 3x3", dlib::con_<3, 3, 3, 1, 1>()) +
           check_gradients("con_ 3x2 stride 2", dlib::con_<4, 3, 2, 2, 2, 1, 1>()) +
           check_gradients("con_ of whole images", dlib::con_<2, 0, 0, 1, 1>()) +
           check_gradients("cont_ 3x3 stride 2", dlib::cont_<3, 3, 3, 2, 2, 1, 1>()) +
           check_gradients("max_pool_ 2x2", dlib::max_pool_<2, 2, 1, 1>()) +
           check_gradients("avg_pool_ 2x2 stride 2", dlib::avg_pool_<2, 2, 2, 2>()) +
           check_gradients("avg_pool_ of whole images", dlib::avg_pool_<0, 0, 1, 1>());
}

// A residual network for 28x28 images.
template <int N, class Subnet>
using block =
    dlib::relu<dlib::add_prev1<dlib::con<N, 3, 3, 1, 1, dlib::relu<dlib::con<N, 3, 3, 1, 1, dlib::tag1<Subnet>>>>>>;
template <int N, class Subnet>
using halve = dlib::max_pool<3, 3, 2, 2, dlib::relu<dlib::con<N, 1, 1, 1, 1, Subnet>>>;
using trunk = block<32, halve<32, block<16, dlib::con<16, 5, 5, 1, 1, dlib::input<dlib::matrix<float>>>>>>;
using network = dlib::loss_multiclass_log<dlib::fc<10, dlib::avg_pool_everything<block<64, halve<64, trunk>>>>>;

struct training {
    network net;
    std::vector<dlib::matrix<float>> images;
    std::vector<unsigned long> labels;
    dlib::resizable_tensor x;
    std::vector<dlib::sgd> solvers;

    explicit training(int batch) : solvers(network::num_computational_layers, dlib::sgd(0.0001f, 0.9f)) {
        numbers random(5);
        for (int i = 0; i < batch; ++i) {
            dlib::matrix<float> image(28, 28);
            for (long r = 0; r < 28; ++r)
                for (long c = 0; c < 28; ++c)
                    image(r, c) = 0.3f * random() + ((r * (i % 10) + c) % 10 < 5 ? 1.0f : 0.0f);
            images.push_back(image);
            labels.push_back(static_cast<unsigned long>(i % 10));
        }
        net.to_tensor(images.begin(), images.end(), x);
    }
    double step() {
        const double loss = net.compute_parameter_gradients(x, labels.begin());
        net.update_parameters(solvers, 0.05);
        return loss;
    }
    std::uint64_t hash() {
        std::uint64_t h = 0xcbf29ce484222325u;
        dlib::visit_layer_parameters(net, [&](std::size_t, dlib::tensor& t) {
            for (const float v : t) {
                std::uint32_t bits = 0;
                std::memcpy(&bits, &v, sizeof bits);
                h = (h ^ bits) * 0x100000001b3u;
            }
        });
        return h;
    }
};

int train() {
    training t(30);
    const double first = t.step();
    for (int i = 0; i < 18; ++i) t.step();
    const double last = t.step();
    std::cout << "loss " << first << " to " << last << ", weights " << std::hex << t.hash() << std::dec << '\n';
    return last < 0.7 * first ? 0 : 1;
}

template <class F>
void time(const char* name, F f) {
    using clock = std::chrono::steady_clock;
    double best = 1e9;
    const auto end = clock::now() + std::chrono::milliseconds(700);
    do {
        const auto start = clock::now();
        f();
        best = std::min(best, std::chrono::duration<double, std::milli>(clock::now() - start).count());
    } while (clock::now() < end);
    std::cout << name << '\t' << best << '\n';
}
int times() {
    for (const conv_row& r : convolutions) {
        conv_layer l(r);
        const std::string name = r.name;
        time((name + ", forward").c_str(), [&] { l.conv(false, l.out, l.data, l.filters, l.biases); });
        time((name + ", data").c_str(),
             [&] { l.conv.get_gradient_for_data(false, l.gradient, l.filters, l.data_gradient); });
        time((name + ", filters").c_str(),
             [&] { l.conv.get_gradient_for_filters(false, l.gradient, l.data, l.filters_gradient); });
    }
    for (const pool_row& r : pools) {
        pool_layer l(r);
        const std::string name = r.name;
        time((name + ", forward").c_str(), [&] { l.pool(l.out, l.src); });
        time((name + ", gradient").c_str(), [&] { l.pool.get_gradient(l.gradient, l.out, l.src, l.src_gradient); });
    }
    training t(32);
    time("a step of the network", [&] { t.step(); });
    return 0;
}

int run(const std::string& command, const std::string& file) {
    if (command == "write") return write(file);
    if (command == "compare") return compare(file);
    if (command == "gradients") return gradients();
    if (command == "train") return train();
    if (command == "time") return times();
    std::cerr << "layers write FILE | compare FILE | gradients | train | time\n";
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    const int status = run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
#if defined(ADAPTER)
    std::cout << gradkern_dlib::calls() << " calls of gradkern\n";
    if (gradkern_dlib::calls() == 0) return 1;
#endif
    return status;
}
