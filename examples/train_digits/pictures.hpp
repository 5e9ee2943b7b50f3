// Draws the two pictures that the program writes.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace digits {

/// One row of the contact sheet: 8x8 images one after another, and what to print beside them.
struct sheet_row {
    std::string title;
    std::string note;
    std::vector<float> pixels;  // (image, row, column), 0 is paper and 1 is ink; values outside are clipped
};

/// Draws rows of 8x8 images, enlarged, as a PNG file. Throws std::runtime_error when the file cannot be written.
void write_contact_sheet(const std::filesystem::path& file, std::span<const sheet_row> rows);

/// One curve of the loss picture: one value per epoch, or a single value for all epochs.
struct curve {
    std::string title;
    std::vector<double> values;
};

/// Draws the curves over the epochs with a logarithmic scale as a PNG file. Throws std::runtime_error as above.
void write_loss_picture(const std::filesystem::path& file, std::span<const curve> curves);

}  // namespace digits
