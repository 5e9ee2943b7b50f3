#include "pictures.hpp"

#include <cairo.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <stdexcept>

namespace digits {
namespace {

struct colour {
    double red, green, blue;
};

constexpr colour white{1, 1, 1};
constexpr colour ink{0.13, 0.14, 0.17};
constexpr colour grey{0.42, 0.44, 0.48};
constexpr colour rule{0.88, 0.89, 0.91};

/// A canvas that becomes a PNG file.
class canvas {
public:
    canvas(int width, int height)
        : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height), cairo_surface_destroy),
          context_(cairo_create(surface_.get()), cairo_destroy) {
        set(white);
        cairo_paint(context_.get());
    }

    void rectangle(double x, double y, double width, double height, colour c) {
        set(c);
        cairo_rectangle(context_.get(), x, y, width, height);
        cairo_fill(context_.get());
    }

    void line(std::span<const std::array<double, 2>> points, double width, colour c, bool dashed = false) {
        set(c);
        constexpr double dash = 5;
        cairo_set_dash(context_.get(), &dash, dashed ? 1 : 0, 0);
        cairo_set_line_width(context_.get(), width);
        cairo_set_line_join(context_.get(), CAIRO_LINE_JOIN_ROUND);
        cairo_new_path(context_.get());  // text ends with a current point
        for (const auto& [x, y] : points) cairo_line_to(context_.get(), x, y);
        cairo_stroke(context_.get());
    }

    /// Text whose middle is at height y; `anchor` 0 puts its left end at x, 0.5 its middle, 1 its right end.
    void text(const std::string& words, double x, double y, double size, colour c, double anchor = 0,
              bool bold = false) {
        set(c);
        cairo_select_font_face(context_.get(), "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                               bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
        cairo_set_font_size(context_.get(), size);
        cairo_text_extents_t extents{};
        cairo_text_extents(context_.get(), words.c_str(), &extents);
        cairo_font_extents_t font{};
        cairo_font_extents(context_.get(), &font);
        cairo_move_to(context_.get(), x - anchor * extents.x_advance, y + (font.ascent - font.descent) / 2);
        cairo_show_text(context_.get(), words.c_str());
    }

    void write(const std::filesystem::path& file) {
        cairo_surface_flush(surface_.get());
        const cairo_status_t drawn = cairo_status(context_.get());
        const cairo_status_t status =
            drawn != CAIRO_STATUS_SUCCESS ? drawn : cairo_surface_write_to_png(surface_.get(), file.c_str());
        if (status != CAIRO_STATUS_SUCCESS) {
            throw std::runtime_error(file.string() + ": cannot be written (" + cairo_status_to_string(status) + ")");
        }
    }

private:
    void set(colour c) { cairo_set_source_rgb(context_.get(), c.red, c.green, c.blue); }

    std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)> surface_;
    std::unique_ptr<cairo_t, void (*)(cairo_t*)> context_;
};

std::string number(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.3g", value);
    return text.data();
}

}  // namespace

void write_contact_sheet(const std::filesystem::path& file, std::span<const sheet_row> rows) {
    constexpr std::size_t side = 8;
    constexpr int zoom = 8, image = zoom * static_cast<int>(side), gap = 8, left = 128, edge = 14;
    const std::size_t columns = rows.empty() ? 0 : rows.front().pixels.size() / (side * side);
    const int pitch = image + gap;
    canvas sheet(left + static_cast<int>(columns) * pitch - gap + edge,
                 2 * edge + static_cast<int>(rows.size()) * pitch - gap);
    for (std::size_t r = 0; r < rows.size(); ++r) {
        const int top = edge + static_cast<int>(r) * pitch;
        sheet.text(rows[r].title, edge, top + image / 2 - 9, 15, ink, 0, true);
        sheet.text(rows[r].note, edge, top + image / 2 + 10, 12, grey);
        for (std::size_t c = 0; c < columns; ++c) {
            for (std::size_t i = 0; i < side * side; ++i) {
                const double value = std::clamp(static_cast<double>(rows[r].pixels[c * side * side + i]), 0.0, 1.0);
                // Ink on paper in the colours of the text, so that the images stand out on a white page.
                const colour shade{0.93 + value * (ink.red - 0.93), 0.94 + value * (ink.green - 0.94),
                                   0.95 + value * (ink.blue - 0.95)};
                sheet.rectangle(left + static_cast<int>(c) * pitch + static_cast<int>(i % side) * zoom,
                                top + static_cast<int>(i / side) * zoom, zoom, zoom, shade);
            }
        }
    }
    sheet.write(file);
}

void write_loss_picture(const std::filesystem::path& file, std::span<const curve> curves) {
    constexpr std::array<colour, 4> colours{
        {{0.12, 0.47, 0.71}, {0.84, 0.37, 0.05}, {0.45, 0.45, 0.45}, {0.55, 0.38, 0.62}}};
    constexpr int width = 760, height = 440, left = 76, right = 176, top = 46, bottom = 58;
    constexpr double plot_width = width - left - right, plot_height = height - top - bottom;

    std::size_t epochs = 1;
    double low = 1e300, high = 0;
    for (const curve& c : curves) {
        epochs = std::max(epochs, c.values.size());
        for (const double v : c.values) {
            if (!(v > 0) || !std::isfinite(v)) continue;
            low = std::min(low, v);
            high = std::max(high, v);
        }
    }
    if (high == 0) low = high = 1;
    low = low / 1.15;
    high = high * 1.15;
    const auto x_of = [&](double epoch) {
        return left + (epochs == 1 ? 0.5 : (epoch - 1) / static_cast<double>(epochs - 1)) * plot_width;
    };
    const auto y_of = [&](double value) {
        const double clipped = std::isfinite(value) ? std::clamp(value, low, high) : high;
        return top + std::log(high / clipped) / std::log(high / low) * plot_height;
    };

    canvas picture(width, height);
    picture.text("Mean squared error while training", left, top / 2.0, 16, ink, 0, true);

    // Ticks of the logarithmic axis: 1, 2, 3 and 5 times a power of ten, fewer if the range is wide.
    const bool wide = high / low > 300;
    for (int power = -12; power <= 12; ++power) {
        for (const double lead : {1.0, 2.0, 3.0, 5.0}) {
            const double value = lead * std::pow(10.0, power);
            if (value < low || value > high || (wide && lead != 1.0)) continue;
            const std::array<std::array<double, 2>, 2> grid{{{left, y_of(value)}, {left + plot_width, y_of(value)}}};
            picture.line(grid, 1, rule);
            picture.text(number(value), left - 10, y_of(value), 12, grey, 1);
        }
    }
    // About eight ticks of the epoch axis at a round distance.
    std::size_t step = 1;
    for (std::size_t i = 0; epochs / step > 8; ++i) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    for (std::size_t epoch = 1; epoch <= epochs; ++epoch) {
        if (epoch % step != 0 && epoch != 1) continue;
        const double x = x_of(static_cast<double>(epoch));
        const std::array<std::array<double, 2>, 2> tick{{{x, top + plot_height}, {x, top + plot_height + 5}}};
        picture.line(tick, 1, grey);
        picture.text(std::to_string(epoch), x, top + plot_height + 17, 12, grey, 0.5);
    }
    const std::array<std::array<double, 2>, 3> axes{
        {{left, top}, {left, top + plot_height}, {left + plot_width, top + plot_height}}};
    picture.line(axes, 1, grey);
    picture.text("epoch", left + plot_width / 2, height - 14, 13, ink, 0.5);

    // Curves, and their names beside their last points, moved apart if they would overlap.
    std::vector<std::array<double, 2>> names;  // (height, index of the curve)
    for (std::size_t i = 0; i < curves.size(); ++i) {
        if (curves[i].values.empty()) continue;
        const colour c = colours[i % colours.size()];
        const bool constant = curves[i].values.size() == 1 && epochs > 1;
        std::vector<std::array<double, 2>> points;
        if (constant) {
            points = {{left, y_of(curves[i].values[0])}, {left + plot_width, y_of(curves[i].values[0])}};
        }
        for (std::size_t e = 0; e < curves[i].values.size() && !constant; ++e) {
            points.push_back({x_of(static_cast<double>(e + 1)), y_of(curves[i].values[e])});
        }
        picture.line(points, constant ? 1.5 : 2, c, constant);
        if (epochs == 1) picture.rectangle(points[0][0] - 3, points[0][1] - 3, 6, 6, c);
        names.push_back({points.back()[1], static_cast<double>(i)});
    }
    std::sort(names.begin(), names.end());
    double lowest = top;
    for (const auto& [y, index] : names) {
        const auto i = static_cast<std::size_t>(index);
        const double at = std::max(y, lowest);
        picture.text(curves[i].title + "  " + number(curves[i].values.back()), left + plot_width + 10, at, 12,
                     colours[i % colours.size()], 0, true);
        lowest = at + 17;
    }
    picture.write(file);
}

}  // namespace digits
