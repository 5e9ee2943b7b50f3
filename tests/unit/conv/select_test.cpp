// Which path a forward pass or a data gradient takes: what each row of the table fits, what forcing one says, what is chosen.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>

#include <gradkern/convolution.hpp>

namespace {

namespace gk = gradkern;
namespace detail = gradkern::detail;
using gk::algorithm;
using gk::data_format;
using gk::errc;
using gk::extents;

// A plan is copied as bytes.
static_assert(std::is_trivially_copyable_v<detail::conv_plan>);

/// A convolution of images with padded 3x3 windows, unless `kernel` says otherwise.
struct layer {
    std::int64_t in_channels, out_channels, groups;  // of all groups
    std::int64_t extent = 64;
    std::int64_t kernel = 3;
    std::int64_t stride = 1;
    std::int64_t dilation = 1;

    [[nodiscard]] gk::convolution_attributes attributes(data_format f) const {
        gk::convolution_attributes a;
        a.strides = {stride, stride};
        a.dilations = {dilation, dilation};
        a.pads_begin = a.pads_end = {kernel / 2, kernel / 2};
        a.groups = groups;
        a.data_format = f;
        return a;
    }
    [[nodiscard]] extents src(data_format f) const {
        return f == data_format::ncx ? extents{1, in_channels, extent, extent}
                                     : extents{1, extent, extent, in_channels};
    }
    [[nodiscard]] extents weights() const { return {kernel, kernel, in_channels / groups, out_channels}; }
    template <class T = float>
    [[nodiscard]] auto forward(data_format f, const gk::plan_options& options = {}) const {
        return gk::plan_convolution<T>(src(f), weights(), {}, attributes(f), {}, options);
    }
    template <class T = float>
    [[nodiscard]] auto backward(data_format f, const gk::plan_options& options = {}) const {
        const extents dst = *gk::infer_convolution(src(f), weights(), attributes(f));
        return gk::plan_convolution_backward_data<T>(dst, weights(), attributes(f), src(f), options);
    }
};
const layer dense{64, 64, 1};
const layer image{40, 3, 1};
const layer strided{8, 3, 1, 64, 3, 2};
const layer one_by_one{64, 64, 1, 64, 1};
const layer depthwise{64, 64, 64};
const layer wide_depthwise{64, 64, 64, 64, 5};
const layer fours{64, 64, 16};
const layer multiplier{64, 128, 64};
const layer nothing{0, 8, 1};

/// The row that describe() names.
template <class Plan>
std::string row_of(const gk::result<Plan>& plan) {
    if (!plan) return std::string(plan.error().argument) + " refused";
    std::string line(plan->describe({}), ' ');
    plan->describe(line);
    line.erase(0, line.find(": ") + 2);
    return line.substr(0, line.find(','));
}

TEST(conv_select, every_row_has_a_name_of_its_own_and_the_last_fits_everything) {
    std::set<std::string_view> names;
    for (const auto& row : detail::conv_paths) names.insert(gk::name_of(row.name));
    EXPECT_EQ(names.size(), detail::conv_paths.size());
    EXPECT_FALSE(names.contains("unknown"));
    EXPECT_FALSE(names.contains("automatic"));
    for (const layer& l : {dense, image, strided, one_by_one, depthwise, wide_depthwise, fours, multiplier, nothing})
        for (const data_format f : {data_format::ncx, data_format::nxc})
            EXPECT_TRUE(l.forward<gk::bfloat16>(f, {.algorithm = detail::conv_paths.back().name}).has_value());
}

TEST(conv_select, a_row_is_forced_or_refused) {
    const struct {
        algorithm row;
        layer fits, does_not;
    } rows[]{
        {algorithm::depthwise_lines, depthwise, fours},
        {algorithm::depthwise_sliding, depthwise, fours},
        {algorithm::depthwise, depthwise, dense},
        {algorithm::depthwise, multiplier, image},
        {algorithm::grouped, fours, dense},
        {algorithm::pointwise, one_by_one, dense},
        {algorithm::narrow_output, image, strided},
    };
    for (const auto& r : rows) {
        SCOPED_TRACE(gk::name_of(r.row));
        EXPECT_EQ(row_of(r.fits.forward(data_format::ncx, {.algorithm = r.row})), gk::name_of(r.row));
        const auto refused = r.does_not.forward(data_format::ncx, {.algorithm = r.row});
        EXPECT_EQ(refused.error().code, errc::unsupported);
        EXPECT_EQ(refused.error().argument, "algorithm");
    }
    // 16 bits are packed: tiles that broadcast read f32
    EXPECT_TRUE(dense.forward(data_format::nxc, {.algorithm = algorithm::dense}).has_value());
    EXPECT_EQ(row_of(dense.forward<gk::float16>(data_format::nxc, {.algorithm = algorithm::dense})),
              "algorithm refused");
}

TEST(conv_select, rows_of_other_operators_are_refused) {
    for (int i = 1; i < 256; ++i) {
        const auto name = static_cast<algorithm>(i);
        bool is_row = gk::name_of(name) == "unknown";
        for (const auto& row : detail::conv_paths) is_row = is_row || row.name == name;
        if (is_row) continue;
        for (const gk::scratch_use scratch : {gk::scratch_use::fast, gk::scratch_use::least})
            EXPECT_EQ(row_of(dense.forward(data_format::nxc, {.algorithm = name, .scratch = scratch})),
                      "algorithm refused");
    }
}

TEST(conv_select, without_channels_all_is_planned_and_without_outputs_nothing_is_needed) {
    for (const data_format f : {data_format::ncx, data_format::nxc})
        for (const std::int64_t kernel : {1, 3}) {
            EXPECT_TRUE((layer{0, 8, 1, 64, kernel}.forward(f).has_value()));
            EXPECT_TRUE((layer{8, 0, 1, 64, kernel}.backward(f).has_value()));
            for (const auto& row : detail::conv_paths) {
                const layer l{8, 0, 1, 64, kernel};
                EXPECT_EQ(l.forward(f)->workspace_bytes(), 0U);
                const auto forced = l.forward(f, {.algorithm = row.name});
                EXPECT_TRUE(!forced || forced->workspace_bytes() == 0U) << gk::name_of(row.name);
            }
        }
}

TEST(conv_select, typical_layers_take_their_rows) {
    constexpr auto ncx = data_format::ncx;
    constexpr auto nxc = data_format::nxc;
    EXPECT_EQ(row_of(dense.forward(nxc)), "dense");
    EXPECT_EQ(row_of(dense.backward(nxc)), "dense");
    EXPECT_EQ(row_of(dense.forward<gk::bfloat16>(nxc)), "dense_packed");
    EXPECT_EQ(row_of(layer{64, 256, 1}.forward(ncx)), "dense_packed");
    EXPECT_EQ(row_of(depthwise.forward(nxc)), detail::most_sliding_rows > 8 ? "depthwise_sliding" : "depthwise");
    EXPECT_EQ(row_of(wide_depthwise.backward(nxc)), "depthwise_sliding");
    gk::convolution_attributes line;
    line.strides = line.dilations = {1};
    line.pads_begin = line.pads_end = {1};
    line.groups = 64;
    EXPECT_EQ(row_of(gk::plan_convolution<float>({1, 500, 64}, {3, 1, 64}, {}, line)),
              "depthwise");  // a window of three taps alone
    EXPECT_EQ(row_of(depthwise.forward(ncx)), "depthwise_lines");
    EXPECT_EQ(row_of(depthwise.backward<gk::bfloat16>(ncx)), "depthwise_lines");
    EXPECT_EQ(row_of(fours.forward(nxc)), "grouped");
    EXPECT_EQ(row_of(fours.backward(nxc)), "grouped");
    EXPECT_EQ(row_of(one_by_one.forward(nxc)), "dense");
    EXPECT_EQ(row_of(multiplier.forward(nxc)), "depthwise");
    if (detail::simd::lanes < 8) return;
    EXPECT_EQ(row_of(one_by_one.forward(ncx)), "pointwise");
    EXPECT_EQ(row_of(image.forward(ncx)), "narrow_output");
    // Outputs of one panel: strides of data gradients cut lines short, and many channels are packed more than once.
    for (const std::int64_t outputs : {1, 3, 4, 6}) {
        if (outputs > 4 && detail::simd::lanes == 8) continue;  // then panels of channels leave few lanes empty
        for (const data_format f : {ncx, nxc})
            EXPECT_EQ(row_of(layer{outputs, 32, 1, 32, 3, 2}.backward(f)), "narrow_output") << outputs;
        EXPECT_EQ(row_of(layer{outputs, 512, 1, 28}.backward(ncx)), "narrow_output") << outputs;
    }
    EXPECT_EQ(row_of(layer{20, 32, 1, 32, 3, 2}.backward(ncx)), "dense_packed");
    // Tall windows of many channels: a block would hold less than two vectors of a line. Also where lanes of channels would be empty.
    EXPECT_EQ(row_of(layer{256, 3, 1, 80, 9, 1, 2}.forward(ncx)), "dense_packed");
    EXPECT_EQ(row_of(layer{256, 3, 1, 80, 5}.forward(ncx)), "narrow_output");
    EXPECT_EQ(row_of(layer{1, 512, 1, 28, 7}.backward(ncx)), "dense_packed");
    EXPECT_EQ(row_of(layer{6, 256, 1, 28, 15}.backward(ncx)), "dense_packed");
    // Strides above the kernel leave phases without taps. A plan must not walk through them.
    EXPECT_EQ(row_of(layer{6, 64, 1, 129, 3, 4}.backward(ncx)), "dense_packed");
    EXPECT_EQ(row_of(layer{6, 64, 1, 4097, 3, 1024}.backward(ncx)), "dense_packed");
    // So do strides that share a divisor with the dilation.
    EXPECT_EQ(row_of(layer{6, 64, 1, 129, 3, 2, 1}.backward(ncx)), "narrow_output");
    EXPECT_EQ(row_of(layer{6, 64, 1, 129, 3, 2, 2}.backward(ncx)), "dense_packed");
    // Of several panels sixteen vectors of a line fit the buffer, however long it is.
    EXPECT_EQ(row_of(layer{12, 24, 1, 4096}.backward(ncx)), "narrow_output");
    // Filters of images.
    for (const data_format f : {ncx, nxc}) EXPECT_EQ(row_of(layer{1, 1, 1}.forward(f)), "depthwise_lines");
    // Groups of four: lanes hold pixels of long lines, and channels of short ones.
    EXPECT_EQ(row_of(layer{64, 64, 16, 4096}.forward(ncx)), "narrow_output");
    EXPECT_EQ(row_of(layer{64, 64, 16, 14}.forward(ncx)), "grouped");
}

TEST(conv_select, least_scratch_takes_dense_rows_whatever_is_named) {
    const gk::plan_options least{.scratch = gk::scratch_use::least};
    for (const layer& l : {dense, depthwise, one_by_one, image}) {
        EXPECT_EQ(row_of(l.forward(data_format::nxc, least)), "dense");
        EXPECT_EQ(row_of(l.forward<gk::bfloat16>(data_format::nxc, least)), "dense_packed");
    }
    EXPECT_EQ(
        row_of(dense.forward(data_format::nxc, {.algorithm = algorithm::depthwise, .scratch = gk::scratch_use::least})),
        "dense");
}

TEST(conv_select, plans_say_no_more_tasks_than_there_are_blocks_and_panels) {
    for (const auto& row : detail::conv_paths) {
        for (const layer& l : {dense, image, one_by_one, depthwise, wide_depthwise, fours, multiplier, nothing}) {
            const auto plan = l.backward(data_format::ncx, {.algorithm = row.name});
            if (!plan) continue;
            EXPECT_GE(plan->workspace_bytes(8), plan->workspace_bytes(1)) << gk::name_of(row.name);
            EXPECT_LE(plan->workspace_bytes(8), 8 * plan->workspace_bytes(1)) << gk::name_of(row.name);
        }
    }
}

}  // namespace
