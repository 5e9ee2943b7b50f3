// xtensor reads and writes the arrays. It believes what a file says of itself, knows no 16-bit floats, and does not notice
// the end of a file: what it is given is checked before.
#include "npy.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
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
    std::string order;
    sizes shape{};
    std::string_view data{};
};

[[nodiscard]] failure damaged(const std::filesystem::path& file, const std::string& what) {
    return failure(file.string() + ": " + what);
}

/// Splits a file whose header is one that NumPy writes and whose data has the size that the header says.
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
    if (length > longest_header) throw damaged(file, "has a header that is no plain array's");

    static const std::regex form(
        R"(\{'descr': ?'([<>|=]?)([a-zA-Z]\d{1,2})', ?'fortran_order': ?(True|False), ?'shape': ?\((|\d+,|\d+(?:, ?\d+)+)\),? ?\} *\n?)");
    std::match_results<std::string_view::const_iterator> found;
    const std::string_view header = bytes.substr(start, length);
    if (!std::regex_match(header.begin(), header.end(), found, form))
        throw damaged(file, "has a header that is no plain array's");
    npy_parts p{found[2].str(), found[3].str()};
    if (found[1].str() == ">") throw damaged(file, "is big-endian");
    const std::string sizes = found[4].str();
    for (const char* at = sizes.data(); at != sizes.data() + sizes.size();) {
        std::int64_t n = 0;
        const auto [end, error] = std::from_chars(at, sizes.data() + sizes.size(), n);
        if (error == std::errc::result_out_of_range) throw damaged(file, "has a size beyond 64 bits");
        if (error == std::errc{}) p.shape.push_back(n);
        at = error == std::errc{} ? end : at + 1;  // a comma or a space
    }
    p.data = bytes.substr(start + length);
    return p;
}

template <class T>
[[nodiscard]] tensor load(const npy_parts& p, element type) {
    // A header as xtensor reads every one: of version 1, of integers instead of 16-bit floats, and 256 bytes long (it takes
    // the low byte of the length for a signed number).
    std::string header = "{'descr': '<" + (p.type == "f2" ? "u2" : p.type) + "', 'fortran_order': " + p.order +
                         ", 'shape': " + text_of(p.shape) + ", }";
    header.resize(255, ' ');
    std::stringstream stream;
    stream << magic << std::string_view("\x01\x00\x00\x01", 4) << header << '\n' << p.data;
    const xt::xarray<T, xt::layout_type::row_major> array = xt::load_npy<T>(stream);
    tensor t(type, p.shape);
    std::copy(array.begin(), array.end(), t.data<T>());
    return t;
}

}  // namespace

std::string read_file(const std::filesystem::path& file) {
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
    if (p.type != facts.npy)
        throw damaged(file, "has elements of type " + p.type + ", expected " + std::string(facts.npy) + " for " +
                                std::string(facts.name));
    std::size_t wanted = 0;
    try {
        wanted = count_of(p.shape) * facts.bytes;
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
        case element::i64: return load<std::int64_t>(p, expected);
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
