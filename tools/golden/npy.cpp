// xtensor reads and writes the arrays. It believes what a file says of itself, knows no 16-bit floats, and does not notice
// the end of a file: what it is given is checked before.
#include "npy.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if __has_include(<xtensor/io/xnpy.hpp>)
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#include <xtensor/io/xnpy.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xnpy.hpp>
#endif

namespace golden {
namespace {

constexpr std::string_view magic{"\x93NUMPY", 6};
constexpr std::size_t longest_header = 4096;  // that of a plain array has 118 bytes

/// Where the parts of a file are.
struct npy_parts {
    std::string type;  ///< "f4"
    bool by_columns = false;
    sizes shape{};
    std::string_view data{};
};

[[nodiscard]] failure damaged(const std::filesystem::path& file, const std::string& what) {
    return failure(file.string() + ": " + what);
}

/// Reads the header of a plain array: a dictionary of Python with the keys descr, fortran_order and shape, in any order. Strings
/// have either quotes, integers may end in L, and lists in a comma, as Python 2 and other writers have them.
class header_reader {
public:
    explicit header_reader(std::string_view text) : rest_(text) {}

    /// Whether this is such a header; then `type`, `order` and `shape` are what it says.
    [[nodiscard]] bool read() {
        bool has_type = false, has_order = false, has_shape = false;
        if (!take('{')) return false;
        while (!take('}')) {
            std::string key;
            if (!string(key) || !take(':')) return false;
            const bool fits = key == "descr"           ? !std::exchange(has_type, true) && string(type)
                              : key == "fortran_order" ? !std::exchange(has_order, true) && boolean()
                              : key == "shape"         ? !std::exchange(has_shape, true) && tuple()
                                                       : false;
            if (!fits) return false;
            if (take(',')) continue;
            if (!take('}')) return false;
            break;
        }
        skip_spaces();
        return rest_.empty() && has_type && has_order && has_shape;
    }

    std::string type{};
    bool by_columns = false;
    sizes shape{};
    bool is_beyond_64_bits = false;  ///< one of the sizes

private:
    void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }
    bool take(char c) {
        skip_spaces();
        if (!rest_.starts_with(c)) return false;
        rest_.remove_prefix(1);
        return true;
    }
    [[nodiscard]] bool string(std::string& to) {
        const char quote = take('\'') ? '\'' : take('"') ? '"' : '\0';
        const std::size_t end = quote != '\0' ? rest_.find(quote) : rest_.npos;
        if (end == rest_.npos) return false;
        to = rest_.substr(0, end);
        rest_.remove_prefix(end + 1);
        return true;
    }
    [[nodiscard]] bool boolean() {
        skip_spaces();
        by_columns = rest_.starts_with("True");
        if (!by_columns && !rest_.starts_with("False")) return false;
        rest_.remove_prefix(by_columns ? 4 : 5);
        return true;
    }
    [[nodiscard]] bool tuple() {
        if (!take('(')) return false;
        while (!take(')')) {
            skip_spaces();
            std::int64_t n = 0;
            if (rest_.starts_with('-')) return false;
            const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), n);
            if (error == std::errc::invalid_argument) return false;
            is_beyond_64_bits |= error == std::errc::result_out_of_range;
            rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
            if (rest_.starts_with('L')) rest_.remove_prefix(1);
            shape.push_back(n);
            if (take(',')) continue;
            return take(')') && shape.size() > 1;  // (3) is no tuple
        }
        return true;
    }

    std::string_view rest_;
};

/// A header for a message: as one line, and not too long.
[[nodiscard]] std::string quoted(std::string_view header) {
    constexpr std::size_t most = 200;
    header = header.substr(0, header.find_last_not_of(" \n") + 1);
    std::string text(header.substr(0, most));
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return header.size() > most ? text + " ..." : text;
}

/// Splits a file whose header is that of a plain array and whose data has the size that the header says.
[[nodiscard]] npy_parts parts_of(std::string_view bytes, const std::filesystem::path& file) {
    if (bytes.substr(0, magic.size()) != magic) throw damaged(file, "not an .npy file");
    const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])); };
    const std::size_t version = bytes.size() > 6 ? byte(6) : 0;
    const std::size_t start = version == 1 ? 10 : 12;
    if (bytes.size() < start) throw damaged(file, "is cut off in its header");
    if (version < 1 || version > 3) throw damaged(file, "has version " + std::to_string(version) + " of .npy");
    std::size_t length = byte(8) | byte(9) << 8;
    if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
    if (length > bytes.size() - start) throw damaged(file, "is cut off in its header");

    const std::string_view text = bytes.substr(start, length);
    header_reader header(text);
    // Python reads longer headers, too: those of arrays whose elements are structures.
    const bool is_plain = length <= longest_header && header.read();
    std::string_view type = header.type;
    if (type.find_first_of("<>|=") == 0) type.remove_prefix(1);
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const bool is_number = (type.size() == 2 || type.size() == 3) &&
                           std::isalpha(static_cast<unsigned char>(type[0])) != 0 &&
                           std::all_of(type.begin() + 1, type.end(), is_digit);
    if (!is_plain || !is_number) throw damaged(file, "has a header that is no plain array's: " + quoted(text));
    if (header.type.front() == '>') throw damaged(file, "is big-endian: " + quoted(text));
    if (header.is_beyond_64_bits) throw damaged(file, "has a size beyond 64 bits: " + quoted(text));
    return {std::string(type), header.by_columns, header.shape, bytes.substr(start + length)};
}

template <class T>
[[nodiscard]] tensor load(const npy_parts& p, element type) {
    // A header as xtensor reads every one: of version 1, of integers instead of 16-bit floats, and 256 bytes long (it takes
    // the low byte of the length for a signed number).
    std::string header = "{'descr': '<" + (p.type == "f2" ? "u2" : p.type) +
                         "', 'fortran_order': " + (p.by_columns ? "True" : "False") + ", 'shape': " + text_of(p.shape) +
                         ", }";
    header.resize(255, ' ');
    std::stringstream stream;
    stream << magic << std::string_view("\x01\x00\x00\x01", 4) << header << '\n' << p.data;
    const xt::xarray<T, xt::layout_type::row_major> array = xt::load_npy<T>(stream);
    tensor t(type, p.shape);
    if constexpr (std::is_same_v<T, std::int32_t>) {
        std::copy(array.begin(), array.end(), t.data<std::int64_t>());
    } else {
        std::copy(array.begin(), array.end(), t.data<T>());
    }
    return t;
}

}  // namespace

std::string read_file(const std::filesystem::path& file) {
    if (std::filesystem::is_directory(file)) throw damaged(file, "is a directory, expected a file");
    std::ifstream in(file, std::ios::binary);
    if (!in) throw damaged(file, std::filesystem::exists(file) ? "cannot be read" : "there is no such file");
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    if (in.bad()) throw damaged(file, "cannot be read");
    return bytes;
}

tensor read_npy(const std::filesystem::path& file, element expected) {
    const std::string bytes = read_file(file);
    const npy_parts p = parts_of(bytes, file);
    const element_facts& facts = facts_of(expected);
    const bool is_narrow = expected == element::i64 && p.type == "i4";  // the indices of most accelerators
    if (p.type != facts.npy && !is_narrow)
        throw damaged(file, "has elements of type " + p.type + ", expected " + std::string(facts.npy) +
                                (expected == element::i64 ? " or i4 for " : " for ") + std::string(facts.name));
    std::size_t wanted = 0;
    try {
        wanted = count_of(p.shape) * (is_narrow ? sizeof(std::int32_t) : facts.bytes);
    } catch (const failure& f) {
        throw damaged(file, f.what());
    }
    if (p.data.size() != wanted)
        throw damaged(file, (p.data.size() < wanted ? "is cut off: " : "is too long: ") +
                                std::to_string(p.data.size()) + " bytes of data, expected " + std::to_string(wanted) +
                                " for the shape " + text_of(p.shape));
    switch (expected) {
        case element::f32: return load<float>(p, expected);
        case element::f64: return load<double>(p, expected);
        case element::i64: return is_narrow ? load<std::int32_t>(p, expected) : load<std::int64_t>(p, expected);
        default: return load<std::uint16_t>(p, expected);
    }
}

namespace {

template <class T>
[[nodiscard]] std::string dump(const tensor& t) {
    const std::vector<std::size_t> shape(t.shape.begin(), t.shape.end());
    return xt::dump_npy(xt::adapt(t.data<T>(), t.size(), xt::no_ownership(), shape));
}

}  // namespace

void write_npy(const std::filesystem::path& file, const tensor& t) {
    std::string bytes;
    switch (t.type) {
        case element::f32: bytes = dump<float>(t); break;
        case element::f64: bytes = dump<double>(t); break;
        case element::i64: bytes = dump<std::int64_t>(t); break;
        default: bytes = dump<std::uint16_t>(t);
    }
    if (t.type == element::f16) bytes[bytes.find("<u2") + 1] = 'f';
    std::error_code ignored;
    std::filesystem::create_directories(file.parent_path(), ignored);
    std::ofstream out(file, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) throw damaged(file, "cannot be written");
}

}  // namespace golden
